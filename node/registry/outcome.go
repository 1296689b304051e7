package registry

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// told is how a direct call ended, as its caller tells it in a heartbeat.
type told struct {
	Ticket    jsontext.Value `json:"ticket"`
	OK        bool           `json:"ok"`
	Code      envelope.Code  `json:"code"`
	LatencyMS float64        `json:"latency_ms"`
}

const (
	// lateOutcome is how long after a ticket has expired the outcome of its call is still taken: a call may last longer than its ticket, and waits
	// for the next heartbeat to be told of.
	lateOutcome = 10 * time.Minute
	maxLatency  = time.Hour
)

// learn lets paths learn from direct calls. An agent's state does not depend on them: they are the caller's word alone. What cannot be used is counted in the log: it is no reason to refuse the heartbeat that
// brought it.
func (r *Registry) learn(caller string, outcomes []told) {
	var refused int
	var last error
	for i := range outcomes {
		if err := r.learnOne(caller, &outcomes[i]); err != nil {
			refused, last = refused+1, err
		}
	}
	if refused > 0 {
		r.Log.Warn("outcomes of direct calls not counted", "caller", caller, "outcome", refused, "err", last)
	}
}

func (r *Registry) learnOne(caller string, o *told) error {
	t, err := r.openLate(o.Ticket, time.Now())
	if err != nil {
		return err
	}
	latency := time.Duration(o.LatencyMS * float64(time.Millisecond))
	switch {
	case t.Caller != caller:
		return envelope.Errorf(envelope.Forbidden, envelope.StepTicket, "the ticket is %s's, and the outcome is told by %s", t.Caller, caller)
	case !(o.LatencyMS >= 0 && o.LatencyMS <= float64(maxLatency.Milliseconds())):
		return envelope.Errorf(envelope.Malformed, envelope.StepTicket, "latency_ms is %v", o.LatencyMS)
	}
	if _, here := r.entries.Load(t.Agent); !here {
		return envelope.Errorf(envelope.UnknownAgent, envelope.StepTicket, "%s is no longer attached here", t.Agent)
	}
	if known, _ := r.tickets.ContainsOrAdd(t.ID, struct{}{}); known {
		return envelope.Errorf(envelope.Duplicate, envelope.StepTicket, "the outcome of ticket %s was told before", t.ID)
	}
	if !o.OK && !blames(o.Code) {
		return nil
	}
	r.Paths.Outcome(r.Node, t.Agent, o.OK, latency, time.Now())
	return nil
}

// openLate opens a ticket of this node as of its own end, if that is at most lateOutcome ago.
func (r *Registry) openLate(doc jsontext.Value, now time.Time) (envelope.Ticket, error) {
	var claim struct {
		Body struct {
			Expires envelope.Timestamp `json:"expires_utc"`
		} `json:"body"`
	}
	if err := json.Unmarshal(doc, &claim); err != nil {
		return envelope.Ticket{}, envelope.Errorf(envelope.Malformed, envelope.StepTicket, "ticket: %v", err)
	}
	if ends := claim.Body.Expires.Time; ends.Before(now) && !ends.Before(now.Add(-lateOutcome)) {
		now = ends
	}
	return envelope.OpenTicket(doc, r.Key.Public(), now)
}

// blames reports whether a direct call that ended with this code speaks against the agent, and not against its caller or the agent's load.
func blames(code envelope.Code) bool {
	switch code {
	case envelope.Unreachable, envelope.Timeout, envelope.AgentFailed, envelope.BadSeal, envelope.Malformed, envelope.Internal, "":
		return true
	}
	return false
}
