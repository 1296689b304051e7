package registry

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/adapter/httpagent"
)

// entry is one attached agent. Registry.mu guards it, but for id and the atomics.
type entry struct {
	id       string
	key      envelope.PublicKey
	attached bool // by the operator

	current *registration
	next    *registration // what it last registered, while current goes on until next has answered a probe

	state  envelope.State
	reason string
	since  time.Time
	record *envelope.Record // as published

	registered time.Time // timestamp of the last accepted registration
	beat       time.Time // timestamp of the last accepted heartbeat
	heard      time.Time // last sign of life, by our clock
	grace      time.Time // until then a lost link's path keeps its history; zero: no link was lost

	probing *registration // under way
	queued  bool          // waits for a prober
	probeAt time.Time     // zero: nothing is to be probed
	backoff time.Duration // between the last two probes of an agent that fails

	failures atomic.Int32 // calls failed in a row
	shaky    atomic.Bool  // backoff is not zero: the next answered call sets it back

	due   time.Time // when its lease must be looked at
	index int       // in leases
}

// registration is what an agent declared in one message, and the way to it.
type registration struct {
	descriptor *envelope.Descriptor
	offers     []envelope.Offer
	schemas    []envelope.SchemaID // one for each Add
	agent      adapter             // nil: it only calls and has no link
	http       *httpagent.Agent    // agent, if it is reached over HTTP
	link       *link.Link          // if it is reached over one
	distance   float64

	once   sync.Once
	proven chan struct{} // closed when its first probe has ended
}

// adapter is the last mile to an agent.
type adapter interface {
	reach.Agent
	Probe(ctx context.Context) error
}

func (g *registration) close() {
	if g != nil && g.http != nil {
		g.http.Close()
	}
}

// setState changes the state, tells the log, and publishes the record. The caller holds mu.
func (r *Registry) setState(e *entry, s envelope.State, reason string) {
	if e.state == s && e.reason == reason {
		return
	}
	if e.state != s {
		e.since = time.Now()
		r.Log.Info("agent state changed", "id", e.id, "state", s, "reason", reason)
	}
	e.state, e.reason = s, reason
	r.publish(e)
}

// publish makes the entry's record known. The caller holds mu.
func (r *Registry) publish(e *entry) {
	r.version++
	e.record = &envelope.Record{
		Agent: e.id, Node: r.Node, Key: e.key,
		State: e.state, Reason: e.reason, Since: e.since,
		Distance:   e.current.distance,
		Descriptor: e.current.descriptor, Offers: e.current.offers,
		Version: r.version,
	}
	if e.attached {
		e.record.VouchedBy = r.Node
	}
	r.Directory.Put(e.record)
}

// seat takes g as the entry's registration in state s. The caller holds mu.
func (r *Registry) seat(e *entry, g *registration, s envelope.State, reason string) {
	old := e.current
	e.current, e.next, e.grace = g, nil, time.Time{}
	if g.agent != nil {
		r.Home.Attach(e.id, reach.Seat{Agent: g.agent, Key: e.key, Limit: g.descriptor.MaxConcurrentRequests, MaxQueue: r.cfg.QueuePerAgent})
	} else {
		r.Home.Detach(e.id)
	}
	if e.state != s || e.reason != reason {
		r.setState(e, s, reason)
	} else {
		r.publish(e)
	}
	if old != nil {
		r.discard(old)
	}
}

// unseat ends what waits for the agent; what runs goes on. The caller holds mu.
func (r *Registry) unseat(e *entry, why string) {
	r.Home.Attach(e.id, reach.Seat{Agent: leaving{e.id, why}, Key: e.key, Limit: math.MaxInt})
}

// leaving stands in for an agent that takes nothing more.
type leaving struct{ id, why string }

func (l leaving) Call(context.Context, *reach.Message, reach.Sink) error {
	return envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "%s takes no new requests: %s", l.id, l.why)
}

// discard gives back what g holds. Its schemas stay a moment, for requests that were resolved with them. The caller holds mu.
func (r *Registry) discard(g *registration) {
	g.close()
	if len(g.schemas) > 0 {
		r.trash = append(r.trash, trash{time.Now().Add(trashDelay), g.schemas})
		r.nudge()
	}
}

// trash are schemas that nobody declares any more.
type trash struct {
	at  time.Time
	ids []envelope.SchemaID
}

const trashDelay = time.Second

// sweep drops the schemas whose moment is over and returns when the next ones are due; zero: there are none. The caller holds mu.
func (r *Registry) sweep(now time.Time) time.Time {
	for len(r.trash) > 0 {
		if r.trash[0].at.After(now) {
			return r.trash[0].at
		}
		r.drop(r.trash[0].ids)
		r.trash = r.trash[1:]
	}
	r.trash = nil
	return time.Time{}
}

func (r *Registry) drop(ids []envelope.SchemaID) {
	for _, id := range ids {
		r.Schemas.Drop(id)
	}
}

// remove forgets the agent. The caller holds mu.
func (r *Registry) remove(e *entry, why string) {
	r.entries.Delete(e.id)
	r.unlease(e)
	r.Home.Detach(e.id)
	r.Directory.Remove(e.id)
	r.Paths.Forget(r.Node, e.id)
	r.discard(e.current)
	if e.next != nil {
		r.discard(e.next)
	}
	r.Log.Info("agent removed", "id", e.id, "reason", why)
	e.state = envelope.Removed
}
