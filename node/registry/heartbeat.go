package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// beat is the payload of a heartbeat. What is absent stays as it is, but for Capabilities: absent means all.
type beat struct {
	CurrentLoad  *float64  `json:"current_load"` // requests running or queued at the agent
	Capabilities *[]string `json:"capabilities"` // those that are available now
	Outcomes     []told    `json:"outcomes"`
}

// Heartbeat renews an agent's lease and takes what it says of itself and of its direct calls.
func (r *Registry) Heartbeat(_ context.Context, m *reach.Message, _ Via) (*envelope.Envelope, error) {
	e, err := r.admitKnown(m)
	if err != nil {
		return nil, err
	}
	var b beat
	if len(m.Payload) > 0 {
		if err := json.Unmarshal(m.Payload, &b, json.RejectUnknownMembers(true)); err != nil {
			return nil, refuse(envelope.Malformed, "heartbeat: %s", strings.TrimPrefix(err.Error(), "json: ")).
				WithHint(`its payload is {"current_load": 3, "capabilities": ["stock.query"], "outcomes": […]}, every member optional`)
		}
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := r.renew(e, m, &b); err != nil {
		return nil, err
	}
	r.learn(m.Header.SourceAgent, b.Outcomes)
	s := r.standing(e)
	return r.answer(m, &s)
}

const maxOutcomes = 1000

func (b *beat) check() error {
	if load := b.CurrentLoad; load != nil && !(*load >= 0 && *load <= 1e9) {
		return refuse(envelope.Malformed, "current_load is %v; it is a number of requests, 0 or more", *load)
	}
	if len(b.Outcomes) > maxOutcomes {
		return refuse(envelope.TooLarge, "%d outcomes; the limit is %d a heartbeat", len(b.Outcomes), maxOutcomes)
	}
	return nil
}

// admitKnown admits a message of an agent that is registered here.
func (r *Registry) admitKnown(m *reach.Message) (*entry, error) {
	if err := r.toUs(m); err != nil {
		return nil, err
	}
	e, ok := r.entries.Load(m.Header.SourceAgent)
	if !ok {
		return nil, r.stranger(m.Header.SourceAgent, "is not registered at this node")
	}
	r.mu.Lock()
	key := e.key
	r.mu.Unlock()
	if pinned, ok := r.Keys.Key(e.id); ok && pinned != key { // the administrator gave the id to another key
		return nil, heldBy(e.id, pinned, key)
	}
	return e, r.Admission.AdmitAs(m, key, time.Now())
}

func (r *Registry) stranger(id, what string) error {
	return refuse(envelope.UnknownAgent, "%s %s", id, what).WithHint("register again")
}

// renew accepts the heartbeat and applies it, whole or not at all.
func (r *Registry) renew(e *entry, m *reach.Message, b *beat) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.state == envelope.Removed:
		return r.stranger(e.id, "is not registered at this node")
	case e.gone():
		return r.stranger(e.id, "was reached over a link that is lost")
	}
	offers, err := e.switched(b.Capabilities)
	if err != nil {
		return err
	}
	if err := r.Admission.Accept(m, time.Now()); err != nil {
		return err
	}
	e.heard = time.Now()
	if !m.Header.Timestamp.Before(e.beat) { // a later one may have overtaken it
		e.beat = m.Header.Timestamp.Time
		r.apply(e, offers, b)
	}
	if e.state == envelope.Unavailable {
		r.welcome(e)
	}
	r.lease(e)
	return nil
}

// welcome takes back an agent that had been silent. The caller holds mu.
func (r *Registry) welcome(e *entry) {
	if e.current.agent == nil { // it only calls
		r.setState(e, envelope.Available, "")
		return
	}
	r.setState(e, envelope.Pending, "is back after silence, has not answered a probe yet")
	r.wantProbe(e)
}

func (r *Registry) apply(e *entry, offers []envelope.Offer, b *beat) {
	if offers != nil {
		e.current.offers = offers
		r.publish(e)
	}
	if b.CurrentLoad != nil {
		r.report(e, *b.CurrentLoad, e.current.descriptor.MaxConcurrentRequests)
	}
}

// report passes on what an agent says of its load, as a share of its limit.
func (r *Registry) report(e *entry, load float64, limit int) {
	r.Paths.Report(r.Node, e.id, load/float64(max(limit, 1)))
}

// switched is the entry's offers with all but the named ones off, nil if that changes nothing. Names of what the agent registered last, and
// has not proven yet, are known too.
func (e *entry) switched(names *[]string) ([]envelope.Offer, error) {
	if names != nil {
		if unknown := e.unknown(*names); len(unknown) > 0 {
			return nil, refuse(envelope.Malformed, "heartbeat names capabilities that %s did not register: %s", e.id, strings.Join(unknown, ", ")).
				WithHint("register again to offer more; leave capabilities out when all are available")
		}
	}
	var changed []envelope.Offer
	for i, o := range e.current.offers {
		off := names != nil && !slices.Contains(*names, o.Name)
		if off == o.Off {
			continue
		}
		if changed == nil {
			changed = slices.Clone(e.current.offers)
		}
		changed[i].Off = off
	}
	return changed, nil
}

func (e *entry) unknown(names []string) (out []string) {
	for _, name := range names {
		if !e.current.offersNamed(name) && !(e.next != nil && e.next.offersNamed(name)) {
			out = append(out, fmt.Sprintf("%+q", name))
			if len(out) == 8 {
				return append(out, "…")
			}
		}
	}
	return out
}

func (g *registration) offersNamed(name string) bool {
	return slices.ContainsFunc(g.offers, func(o envelope.Offer) bool { return o.Name == name })
}

// Unregister lets an agent leave: no new request is handed to it, what runs may finish, then it is removed. The node's own key takes out
// the attached agent that target_agent names, and its files.
func (r *Registry) Unregister(_ context.Context, m *reach.Message, _ Via) (*envelope.Envelope, error) {
	if m.Header.SourceAgent == r.Node {
		return r.detach(m)
	}
	e, err := r.admitKnown(m)
	if err != nil {
		return nil, err
	}
	if err := r.Admission.Accept(m, time.Now()); err != nil {
		return nil, err
	}
	return r.answer(m, &left{r.drain(e)})
}

type left struct {
	State envelope.State `json:"state"`
}

// drain starts the agent's leaving, and ends it if nothing runs.
func (r *Registry) drain(e *entry) envelope.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.state == envelope.Removed {
		return e.state
	}
	if e.next != nil {
		r.discard(e.next)
		e.next = nil
	}
	e.probeAt = time.Time{}
	r.setState(e, envelope.Draining, "unregistered")
	if running, _ := r.Home.Load(e.id); running == 0 {
		r.remove(e, e.reason)
		return e.state
	}
	r.unseat(e, "it is leaving")
	r.lease(e)
	return e.state
}
