package reach

import (
	"context"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/agent-reach/agent-reach/envelope"
)

// Seat is an attached agent as its home node calls it.
type Seat struct {
	Agent    Agent
	Key      envelope.PublicKey // the key of its answers' seals
	Limit    int                // requests running at once
	MaxQueue int                // requests waiting at once
}

// HomeConfig is what a Home works with.
type HomeConfig struct {
	Node      string // this node's id
	Admission *Admission
	Paths     *Paths
}

// Home delivers to the agents attached to this node. It is safe for concurrent use.
type Home struct {
	cfg   HomeConfig
	seats *xsync.Map[string, *seat]
}

// NewHome makes a Home without agents.
func NewHome(cfg HomeConfig) *Home { return &Home{cfg, xsync.NewMap[string, *seat]()} }

// Attach gives the agent a seat, or changes the one it has: what runs and waits goes on.
func (h *Home) Attach(agent string, s Seat) {
	for {
		at, _ := h.seats.LoadOrStore(agent, &seat{name: agent, path: h.cfg.Paths.of(h.cfg.Node, agent)})
		at.replace(s)
		if now, ok := h.seats.Load(agent); ok && now == at { // not detached meanwhile
			return
		}
	}
}

// Detach takes the agent's seat away. Waiting calls end as Unreachable; running ones go on.
func (h *Home) Detach(agent string) {
	if s, ok := h.seats.LoadAndDelete(agent); ok {
		s.close()
	}
}

// Load is how many requests run on the agent and wait for it.
func (h *Home) Load(agent string) (running, waiting int) {
	if s, ok := h.seats.Load(agent); ok {
		return s.load()
	}
	return 0, 0
}

// Waiting is how many requests wait for all agents together. It visits every seat: for metrics only.
func (h *Home) Waiting() (n int) {
	h.seats.Range(func(_ string, s *seat) bool {
		_, waiting := s.load()
		n += waiting
		return true
	})
	return n
}

// Deliver waits for a place at the agent, calls it, checks each part of its answer and passes it to sink. The place is given back when
// the answer has ended.
//
// Errors: those of Agent.Call; Overloaded, Loop, Expired, Unreachable from the queue; BadSeal or Malformed at StepAnswer.
func (h *Home) Deliver(ctx context.Context, agent string, m *Message, sink Sink) error {
	at, ok := h.seats.Load(agent)
	if !ok {
		return envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "%s is not attached to node %s", agent, h.cfg.Node)
	}
	s, err := at.enter(ctx, m)
	if err != nil {
		return err
	}
	defer at.leave()
	a := answer{home: h, agent: agent, key: s.Key, request: m, sink: sink}
	err = s.Agent.Call(ctx, m, a.take)
	return a.end(err)
}

// FromPeer admits a message that another node sent, as if no one had admitted it before, and delivers it.
func (h *Home) FromPeer(ctx context.Context, agent string, m *Message, sink Sink) error {
	now := time.Now()
	if err := h.cfg.Admission.Admit(m, now); err != nil {
		return err
	}
	if err := h.cfg.Admission.Accept(m, now); err != nil {
		return err
	}
	err := h.Deliver(ctx, agent, m, sink)
	if err != nil && envelope.AsError(err).Code.NotRun() {
		h.cfg.Admission.Forget(m)
	}
	return err
}
