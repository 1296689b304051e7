package ingress

import (
	"context"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/adapter/linkagent"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// seats is a registry that believes whoever comes first.
type seats struct {
	world     *world
	directory *gossip.Directory
	schemas   *schema.Store
	mu        sync.Mutex
	keys      map[string]envelope.PublicKey
	downs     []string
	panics    bool
}

func (s *seats) Key(agent string) (envelope.PublicKey, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.keys[agent]
	return key, ok
}

func (s *seats) pin(agent string, key envelope.PublicKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.keys[agent]; ok && known != key {
		return envelope.Errorf(envelope.Conflict, envelope.StepRegister, "%s is held by another key", agent)
	}
	s.keys[agent] = key
	return nil
}

func (s *seats) Authorize(p link.Peer) error { return s.pin(p.ID, p.Key) }

func (s *seats) LinkDown(agent string, _ *link.Link, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downs = append(s.downs, agent)
	s.world.deps.Home.Detach(agent)
	s.directory.Remove(agent)
}

func (s *seats) Register(_ context.Context, m *reach.Message, via Via) (*envelope.Envelope, error) {
	if s.panics {
		panic("the registry is broken")
	}
	d, err := envelope.DecodeDescriptor(m.Payload)
	if err != nil {
		return nil, err
	}
	if err := s.world.deps.Admission.AdmitAs(m, d.PublicKey, time.Now()); err != nil {
		return nil, err
	}
	if err := s.pin(d.AgentID, d.PublicKey); err != nil {
		return nil, err
	}
	if via.Link != nil {
		s.world.deps.Home.Attach(d.AgentID, reach.Seat{Agent: linkagent.New(via.Link), Key: d.PublicKey, Limit: d.MaxConcurrentRequests, MaxQueue: 100})
	}
	if err := s.publish(d); err != nil {
		return nil, err
	}
	return s.world.server.reply(m, map[string]any{"agent_id": d.AgentID, "node_id": s.world.id, "state": "available"})
}

func (s *seats) publish(d *envelope.Descriptor) error {
	r := &envelope.Record{Agent: d.AgentID, Node: s.world.id, Key: d.PublicKey, State: envelope.Available, Since: time.Now(), Distance: 1, Descriptor: d}
	for i := range d.Capabilities {
		id, err := s.schemas.Add(d.Capabilities[i].InputSchema)
		if err != nil {
			return err
		}
		v, err := envelope.ParseVersion(d.Capabilities[i].Version)
		if err != nil {
			return err
		}
		r.Offers = append(r.Offers, envelope.Offer{Capability: &d.Capabilities[i], Semver: v, Schema: id})
	}
	s.directory.Put(r)
	return nil
}

func (s *seats) Heartbeat(_ context.Context, m *reach.Message, _ Via) (*envelope.Envelope, error) {
	if err := s.world.deps.Admission.Admit(m, time.Now()); err != nil {
		return nil, err
	}
	return s.world.server.reply(m, map[string]any{"state": "available"})
}

func (s *seats) Unregister(_ context.Context, m *reach.Message, _ Via) (*envelope.Envelope, error) {
	if err := s.world.deps.Admission.Admit(m, time.Now()); err != nil {
		return nil, err
	}
	agent := m.Header.SourceAgent
	if agent == s.world.id {
		agent = m.Header.TargetAgent
	}
	s.directory.Remove(agent)
	return s.world.server.reply(m, map[string]any{"state": "removed"})
}

func (s *seats) Attach(_ context.Context, m *reach.Message) (*envelope.Envelope, error) {
	if err := s.world.deps.Admission.Admit(m, time.Now()); err != nil {
		return nil, err
	}
	d, err := envelope.DecodeDescriptor(m.Payload)
	if err != nil {
		return nil, err
	}
	d.PublicKey = envelope.GenerateKey().Public() // kept by the node in the agent's name
	if err := s.publish(d); err != nil {
		return nil, err
	}
	return s.world.server.reply(m, map[string]any{"agent_id": d.AgentID, "state": "pending"})
}
