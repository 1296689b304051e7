package sdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// Candidate is an agent that can be called direct now.
type Candidate struct {
	Agent    string             `json:"agent"`
	Version  string             `json:"version"` // of the capability
	Score    float64            `json:"score"`   // 0 to 10
	Endpoint envelope.Endpoint  `json:"endpoint"`
	Key      envelope.PublicKey `json:"public_key"` // of the seals of its answers
	Ticket   jsontext.Value     `json:"ticket"`     // lets this agent call it, for at most 60 s
}

const (
	maxCandidates = "32"
	maxLookup     = 1 << 20 // bytes of the answer
	lookupTime    = 10 * time.Second
)

// Lookup lists the agents that could answer a request for the capability now and can be called direct, the best first, at most 32. The list is empty where all
// who could answer are reached through nodes only. Call with Direct does all of this by itself. Of the options ToAgent, Conversation and Trace count.
//
// Errors: those of Call but AgentFailed; NoRoute where nobody could answer.
func (a *Agent) Lookup(ctx context.Context, capability string, options ...CallOption) ([]Candidate, error) {
	c := newCall(capability, nil, options)
	return a.lookup(ctx, &c)
}

func (a *Agent) lookup(ctx context.Context, c *Call) ([]Candidate, error) {
	asked := *c
	asked.Input, asked.MsgID, asked.TTL = nil, "", envelope.MaxTicketLife // no ticket outlives the message that asks for it
	q, err := a.question(context.WithoutCancel(ctx), &asked, envelope.Request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	for try := 0; ; try++ {
		s, err := a.attached(ctx)
		if err != nil {
			return nil, err
		}
		found, err := a.lookupAt(ctx, s, q)
		if err == nil || try == maxRetries || !a.again(err) || !sleep(ctx, jitter(retryPause<<try)) {
			return found, outcomeOf(ctx, err)
		}
	}
}

func (a *Agent) lookupAt(ctx context.Context, s *session, q *question) ([]Candidate, error) {
	if err := q.seal(a); err != nil {
		return nil, err
	}
	doc, err := q.AppendDocument(nil, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.fetch(ctx, http.MethodPost, s.home.url+"/v1/lookup?limit="+maxCandidates, doc)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxLookup))
	if err != nil {
		return nil, envelope.Errorf(envelope.Unreachable, envelope.StepAnswer, "node %s: %v", s.home.url, err)
	}
	var said struct {
		Candidates []Candidate `json:"candidates"`
	}
	if err := json.Unmarshal(b, &said); err != nil {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "node %s: its look-up cannot be read: %v", s.home.url, err)
	}
	return said.Candidates, nil
}

// again reports whether a request that failed with err was certainly not handed over and may fare better the next time.
func (a *Agent) again(err error) bool {
	if err == nil || errors.Is(err, envelope.AgentFailed) {
		return false
	}
	switch e := envelope.AsError(err); {
	case e.Code == envelope.Unreachable:
		return true
	case e.Code == envelope.Expired && e.Step == envelope.StepSeen: // sealed a moment before the node started
		return true
	case e.Code == envelope.UnknownAgent && e.Step == envelope.StepSeal: // the node forgot us
		poke(a.renew)
		return true
	}
	return false
}

// expiry is when the candidate's ticket ends, by the clock of the node that wrote it; zero if that cannot be read.
func (c *Candidate) expiry() time.Time {
	var t struct {
		Body struct {
			Expires envelope.Timestamp `json:"expires_utc"`
		} `json:"body"`
	}
	if json.Unmarshal(c.Ticket, &t) != nil {
		return time.Time{}
	}
	return t.Body.Expires.Time
}
