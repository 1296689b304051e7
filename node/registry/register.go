package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/reach"
)

// Register takes an agent in, or replaces what it had registered. The answer tells the state; the agent gets traffic once it has answered
// a probe.
func (r *Registry) Register(ctx context.Context, m *reach.Message, via Via) (*envelope.Envelope, error) {
	d, err := r.declared(m)
	if err != nil {
		return nil, err
	}
	if err := r.admit(m, d); err != nil {
		return nil, err
	}
	g, err := r.prepare(ctx, d, way{via: via, key: d.PublicKey})
	if err != nil {
		return nil, err
	}
	e, err := r.enrol(m, g)
	if err != nil {
		r.drop(g.schemas)
		return nil, err
	}
	if g.link != nil {
		g.await(ctx)
	}
	r.Log.Info("agent registered", "id", e.id, "capability_count", len(d.Capabilities), "addr", place(d, via))
	return r.registered(m, e)
}

func place(d *envelope.Descriptor, via Via) string {
	if d.Endpoint.Type == envelope.HTTPEndpoint {
		return d.Endpoint.URL
	}
	if !via.Remote.IsValid() {
		return "this process"
	}
	return via.Remote.String()
}

// declared reads the descriptor of a registration that an agent sent in its own name.
func (r *Registry) declared(m *reach.Message) (*envelope.Descriptor, error) {
	if err := r.toUs(m); err != nil {
		return nil, err
	}
	d, err := envelope.DecodeDescriptor(m.Payload)
	if err != nil {
		return nil, err
	}
	switch {
	case d.AgentID != m.Header.SourceAgent:
		return nil, refuse(envelope.Malformed, "source_agent is %s, but the descriptor is of %s; an agent registers itself only", m.Header.SourceAgent, d.AgentID).
			WithHint("agent_id has to be the message's source_agent")
	case d.PublicKey.IsZero():
		return nil, refuse(envelope.Malformed, "the descriptor of %s has no public_key", d.AgentID).
			WithHint("an HTTP agent without a key is attached by the operator: agent-reach attach FILE")
	}
	return d, r.checkDescriptor(d)
}

// toUs checks that the message was meant for this node: one that was replayed from another must not work here.
func (r *Registry) toUs(m *reach.Message) error {
	if m.Header.ToNode != r.Node {
		return refuse(envelope.Forbidden, "this %s is for node %s, and this is node %s", m.Header.MsgType, m.Header.ToNode, r.Node).
			WithHint("set to_node to the id of the node that it is sent to; GET /v1/nodes and the link's handshake tell it")
	}
	return nil
}

// checkDescriptor checks what depends on this node's settings.
func (r *Registry) checkDescriptor(d *envelope.Descriptor) error {
	if d.AgentID == r.Node {
		return refuse(envelope.Conflict, "%s is the id of this node", d.AgentID)
	}
	if d.HeartbeatInterval() > r.cfg.HeartbeatTimeout/2 {
		timeout := r.cfg.HeartbeatTimeout.Seconds()
		return refuse(envelope.Malformed, "heartbeat_timeout_sec %.0f is under 2 × heartbeat_interval_sec %d = %d; one lost heartbeat would make %s unavailable",
			timeout, d.HeartbeatIntervalSec, 2*d.HeartbeatIntervalSec, d.AgentID).
			WithHint("raise registry.heartbeat_timeout_sec of the node to %d or lower heartbeat_interval_sec of the agent to %.0f", 2*d.HeartbeatIntervalSec, timeout/2)
	}
	if _, known := r.entries.Load(d.AgentID); !known && r.entries.Size() >= r.cfg.MaxAgents {
		return r.fullHouse()
	}
	return nil
}

func (r *Registry) fullHouse() error {
	return refuse(envelope.Overloaded, "this node has %d agents, as many as it takes", r.cfg.MaxAgents).
		WithHint("attach to another node").WithRetryAfter(r.cfg.CapabilityTTL)
}

// admit checks the seal and whether its key may speak for the id.
func (r *Registry) admit(m *reach.Message, d *envelope.Descriptor) error {
	if err := r.mayHold(d.AgentID, d.PublicKey); err != nil {
		r.Log.Warn("registration refused", "id", d.AgentID, "code", envelope.AsError(err).Code, "reason", why(err))
		return err
	}
	return r.Admission.AdmitAs(m, d.PublicKey, time.Now())
}

// mayHold judges whether key may speak for the agent id: the key in the key store, else the first known.
func (r *Registry) mayHold(id string, key envelope.PublicKey) error {
	if id == r.Node {
		return refuse(envelope.Conflict, "%s is the id of this node", id)
	}
	if pinned, ok := r.Keys.Key(id); ok {
		return heldBy(id, pinned, key)
	}
	if rec := r.Directory.Agent(id); rec != nil {
		if err := heldBy(id, rec.Key, key); err != nil {
			return err
		}
	}
	if !r.cfg.FirstUse {
		return refuse(envelope.UnknownAgent, "%s is not in the public key store, and enrolment is keystore", id).
			WithHint("the administrator adds its public key %s to %s", key, r.Keys.Path())
	}
	return nil
}

// Authorize judges who may open a link as an agent: it is what link.Config.Authorize wants to know.
func (r *Registry) Authorize(p link.Peer) error {
	if p.Role != link.Agent {
		return nil
	}
	err := r.mayHold(p.ID, p.Key)
	if err != nil {
		r.Log.Warn("link refused", "id", p.ID, "code", envelope.AsError(err).Code, "reason", why(err))
	}
	return err
}

// enrol pins the key and seats the agent. After an error nothing has changed.
func (r *Registry) enrol(m *reach.Message, g *registration) (*entry, error) {
	if err := r.Admission.Accept(m, time.Now()); err != nil {
		return nil, err
	}
	err := r.pin(g.descriptor)
	var e *entry
	if err == nil {
		e, err = r.install(g, arrival{key: g.descriptor.PublicKey, said: m.Header.Timestamp.Time})
	}
	if err != nil {
		r.Admission.Forget(m)
		return nil, err
	}
	return e, nil
}

func (r *Registry) pin(d *envelope.Descriptor) error {
	if !r.cfg.FirstUse {
		return nil
	}
	return r.Keys.Pin(d.AgentID, d.PublicKey)
}

// arrival is what install must know beside the registration.
type arrival struct {
	key      envelope.PublicKey
	said     time.Time // the message's timestamp
	attached bool
}

// install makes g the agent's registration: at once, or, where another one works, when g has answered a probe.
func (r *Registry) install(g *registration, a arrival) (*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, err := r.entryFor(g.descriptor.AgentID, a)
	if err != nil {
		return nil, err
	}
	e.key, e.attached, e.registered, e.heard = a.key, a.attached, a.said, time.Now()
	switch {
	case g.agent == nil:
		r.seat(e, g, envelope.Available, "")
	case e.state == envelope.Available && e.current.agent != nil && !e.gone():
		if e.next != nil {
			r.discard(e.next)
		}
		e.next = g
	default:
		e.setBackoff(0)
		r.seat(e, g, envelope.Pending, "has not answered a probe yet")
	}
	e.failures.Store(0)
	if d := g.descriptor; d.CurrentLoad > 0 {
		r.report(e, d.CurrentLoad, d.MaxConcurrentRequests)
	}
	r.wantProbe(e)
	r.lease(e)
	return e, nil
}

// entryFor finds or makes the agent's entry. The caller holds mu.
func (r *Registry) entryFor(id string, a arrival) (*entry, error) {
	e, ok := r.entries.Load(id)
	switch {
	case !ok && r.entries.Size() >= r.cfg.MaxAgents:
		return nil, r.fullHouse()
	case !ok:
		e = &entry{id: id, index: -1}
		r.entries.Store(id, e)
	case e.attached != a.attached && e.key != a.key:
		return nil, heldBy(id, e.key, a.key)
	case a.said.Before(e.registered):
		return nil, refuse(envelope.Expired, "this registration of %s was made %s before the last one that was accepted; the later one stays",
			id, e.registered.Sub(a.said)).WithHint("register anew, with a new timestamp")
	}
	return e, nil
}

// capabilities compiles the schemas of a descriptor. After an error nothing of it is left in the store.
func (r *Registry) capabilities(d *envelope.Descriptor) (offers []envelope.Offer, ids []envelope.SchemaID, err error) {
	var places []envelope.Place
	offers = make([]envelope.Offer, len(d.Capabilities))
	for i := range d.Capabilities {
		c := &d.Capabilities[i]
		offer, added, err := r.offer(c)
		ids = append(ids, added...)
		if err != nil {
			places = append(places, envelope.BadCapability(i, c.Name, err))
		}
		offers[i] = offer
	}
	if err := envelope.CapabilityErrors(d.AgentID, places); err != nil {
		r.drop(ids)
		return nil, nil, err
	}
	return offers, ids, nil
}

func (r *Registry) offer(c *envelope.Capability) (o envelope.Offer, added []envelope.SchemaID, err error) {
	o.Capability = c
	if o.Semver, err = envelope.ParseVersion(c.Version); err != nil {
		return o, nil, err
	}
	if o.Schema, err = r.Schemas.Add(c.InputSchema); err != nil {
		return o, nil, about("input_schema", err)
	}
	added = append(added, o.Schema)
	out, err := r.Schemas.Add(c.OutputSchema)
	if err != nil {
		return o, added, about("output_schema", err)
	}
	return o, append(added, out), nil
}

// about is err with the name of the schema, and with every place that it names.
func about(schema string, err error) error {
	e := envelope.AsError(err)
	texts := []string{e.Text}
	for _, p := range e.Places {
		texts = append(texts, fmt.Sprintf("%s %s", p.Pointer, p.Text))
	}
	return errors.New(schema + ": " + strings.Join(texts, "; "))
}
