package reach_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/seen"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/schema"
)

const here = "node-here"

// world is a node's inside: everything that a request meets between the ingress and an agent, all of it real.
type world struct {
	t         testing.TB
	ingress   *reach.Ingress
	home      *reach.Home
	directory *gossip.Directory
	paths     *reach.Paths
	schemas   *schema.Store
	caller    envelope.PrivateKey
	keys      sync.Map // agent id → envelope.PublicKey
	perms     atomic.Pointer[envelope.Permissions]
	routing   reach.Routing

	mu     sync.Mutex
	events []reach.Event
}

func (w *world) Key(agent string) (envelope.PublicKey, bool) {
	key, ok := w.keys.Load(agent)
	if !ok {
		return envelope.PublicKey{}, false
	}
	return key.(envelope.PublicKey), true
}

func (w *world) Observe(ev reach.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, ev)
}

// last is the newest event of that step.
func (w *world) last(step envelope.Step) (ev reach.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Step == step {
			ev = e
		}
	}
	return ev
}

func newWorld(t testing.TB, routing reach.Routing) *world {
	w := &world{
		t: t, directory: gossip.NewDirectory(), schemas: schema.NewStore(), paths: reach.NewPaths(reach.DefaultWeights),
		caller: envelope.GenerateKey(), routing: routing,
	}
	w.keys.Store("caller", w.caller.Public())
	admission := reach.NewAdmission(reach.AdmissionConfig{
		MaxPayload: 1 << 20, RequireSignature: true, Keys: w, Seen: seen.New(seen.Config{}), Permissions: w.perms.Load,
	})
	w.home = reach.NewHome(reach.HomeConfig{Node: here, Admission: admission, Paths: w.paths})
	w.ingress = reach.NewIngress(reach.IngressConfig{
		Node: here, Admission: admission, Directory: w.directory, Schemas: w.schemas, Paths: w.paths, Home: w.home,
		Observer: w, Routing: routing,
	})
	return w
}

func usual() reach.Routing {
	return reach.Routing{Mode: reach.WeightedRandom, TopN: 3, Retry: true, MaxRetry: 2}
}

// agent is an agent in this process: it seals its answers as any other.
type agent struct {
	id   string
	key  envelope.PrivateKey
	runs atomic.Int64
	// act answers a request; nil: echo.
	act func(ctx context.Context, m *reach.Message, a *agent, sink reach.Sink) error
}

func (a *agent) Call(ctx context.Context, m *reach.Message, sink reach.Sink) error {
	a.runs.Add(1)
	if a.act != nil {
		return a.act(ctx, m, a, sink)
	}
	return sink(a.reply(m, m.Payload, nil))
}

// reply makes a sealed answer; change, if any, falsifies its header first.
func (a *agent) reply(m *reach.Message, payload []byte, change func(*envelope.Header)) *envelope.Envelope {
	h := envelope.Header{
		MsgID: "re-" + m.Header.MsgID, TraceID: m.Header.TraceID, MsgType: envelope.Response, SourceAgent: a.id,
		TargetAgent: m.Header.SourceAgent, TargetCapability: m.Header.TargetCapability, InReplyTo: m.Header.MsgID,
		Timestamp: envelope.Timestamp{Time: time.Now()}, Status: envelope.StatusOK,
	}
	if change != nil {
		change(&h)
	}
	e, err := envelope.New(h, payload)
	if err != nil {
		panic(err)
	}
	envelope.Sign(a.key, e)
	return e
}

type option func(*envelope.Record, *reach.Seat)

func limit(n, queue int) option {
	return func(r *envelope.Record, s *reach.Seat) {
		r.Descriptor.MaxConcurrentRequests, s.Limit, s.MaxQueue = n, n, queue
	}
}

func state(s envelope.State) option {
	return func(r *envelope.Record, _ *reach.Seat) { r.State = s }
}

func effect(e envelope.Effect) option {
	return func(r *envelope.Record, _ *reach.Seat) { r.Descriptor.Capabilities[0].Effect = e }
}

// attach adds an agent with one capability at one version and schema.
func (w *world) attach(id, capability, version, input string, opts ...option) *agent {
	w.t.Helper()
	a := &agent{id: id, key: envelope.GenerateKey()}
	doc := fmt.Sprintf(`{"agent_id":%q,"capabilities":[{"name":%q,"version":%q,"input_schema":%s}]}`, id, capability, version, input)
	d, err := envelope.DecodeDescriptor([]byte(doc))
	if err != nil {
		w.t.Fatal(err)
	}
	sid, err := w.schemas.Add(d.Capabilities[0].InputSchema)
	if err != nil {
		w.t.Fatal(err)
	}
	v, _ := envelope.ParseVersion(version)
	r := &envelope.Record{
		Agent: id, Node: here, Key: a.key.Public(), State: envelope.Available, Distance: 1, Descriptor: d,
		Offers: []envelope.Offer{{Capability: &d.Capabilities[0], Semver: v, Schema: sid}},
	}
	s := reach.Seat{Agent: a, Key: a.key.Public(), Limit: d.MaxConcurrentRequests, MaxQueue: 100}
	for _, o := range opts {
		o(r, &s)
	}
	w.keys.Store(id, r.Key)
	w.home.Attach(id, s)
	w.directory.Put(r)
	return a
}

var counter atomic.Int64

// request makes a sealed request of "caller"; change, if any, edits its header first.
func (w *world) request(capability, payload string, change func(*envelope.Header)) *reach.Message {
	w.t.Helper()
	h := envelope.Header{
		MsgID: fmt.Sprintf("m-%d", counter.Add(1)), TraceID: "trace-1", MsgType: envelope.Request, SourceAgent: "caller", TargetCapability: capability,
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}
	if change != nil {
		change(&h)
	}
	e, err := envelope.New(h, []byte(payload))
	if err != nil {
		w.t.Fatal(err)
	}
	envelope.Sign(w.caller, e)
	return &reach.Message{Envelope: e, FromLoopback: true}
}

// reach sends m and returns the parts of its answer.
func (w *world) reach(ctx context.Context, m *reach.Message) (parts []*envelope.Envelope, err error) {
	err = w.ingress.Reach(ctx, m, func(part *envelope.Envelope) error {
		parts = append(parts, part)
		return nil
	})
	return parts, err
}

// call is reach for an answer of one part; it returns who answered.
func (w *world) call(m *reach.Message) (who string, err error) {
	parts, err := w.reach(context.Background(), m)
	if err != nil {
		return "", err
	}
	return parts[0].Header.SourceAgent, nil
}
