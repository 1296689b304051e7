package registry

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/envelope/seen"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// patience bounds every wait for something that must happen.
const patience = 10 * time.Second

// node is a registry with the real parts around it, and an ingress that routes to it.
type node struct {
	*Registry
	t       *testing.T
	ingress *reach.Ingress
	key     envelope.PrivateKey
	log     *lockedBuffer
	halt    func()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// outcomes feeds the registry as the node does.
type outcomes struct{ r *Registry }

func (o outcomes) Observe(e reach.Event) {
	if e.Step == envelope.StepForward {
		o.r.Outcome(e.Agent, e.Err != nil)
	}
}

func newNode(t *testing.T, change func(*Config)) *node {
	return newNodeIn(t, t.TempDir(), envelope.GenerateKey(), change)
}

// newNodeIn starts a node whose files are in dir.
func newNodeIn(t *testing.T, dir string, key envelope.PrivateKey, change func(*Config)) *node {
	t.Helper()
	cfg := Config{FirstUse: true, AttachedDir: filepath.Join(dir, "attached")}
	if change != nil {
		change(&cfg)
	}
	keys, err := OpenKeyStore(filepath.Join(dir, "public_keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, key: key, log: &lockedBuffer{}}
	id := key.Public().Fingerprint()
	dir2, schemas, paths := gossip.NewDirectory(), schema.NewStore(), reach.NewPaths(reach.DefaultWeights)
	admission := reach.NewAdmission(reach.AdmissionConfig{
		MaxPayload: envelope.DefaultMaxPayload, RequireSignature: true, Keys: keys, Seen: seen.New(seen.Config{}),
	})
	home := reach.NewHome(reach.HomeConfig{Node: id, Admission: admission, Paths: paths})
	n.Registry = New(cfg, Deps{
		Node: id, Key: key, Home: home, Directory: dir2, Schemas: schemas, Keys: keys, Paths: paths, Admission: admission,
		Log: slog.New(slog.NewTextHandler(n.log, nil)),
	})
	n.ingress = reach.NewIngress(reach.IngressConfig{
		Node: id, Admission: admission, Directory: dir2, Schemas: schemas, Paths: paths, Home: home, Observer: outcomes{n.Registry},
		Routing: reach.Routing{Mode: reach.Best, TopN: 3, Retry: true, MaxRetry: 2},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = n.Run(ctx) }()
	n.halt = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(n.halt)
	return n
}

// agent is the far end: an id, a key, and perhaps a link.
type agent struct {
	n    *node
	id   string
	key  envelope.PrivateKey
	link *link.Link
	// answer makes the payload of an answer; an error ends the call with it. Nil: no answer until the call ends.
	answer func(m *envelope.Envelope) ([]byte, error)
	drop   func() // breaks the link
	gone   chan struct{}
}

func newAgent(n *node, id string) *agent {
	return &agent{n: n, id: id, key: envelope.GenerateKey(), answer: func(*envelope.Envelope) ([]byte, error) { return []byte(`"ok"`), nil }}
}

// twin is the same agent without its link, to open another.
func (a *agent) twin() *agent { return &agent{n: a.n, id: a.id, key: a.key, answer: a.answer} }

// open links the agent to its node; err is what the node's goaway said.
func (a *agent) open() error {
	a.n.t.Helper()
	ours, theirs := net.Pipe()
	a.gone = make(chan struct{})
	go func() {
		defer close(a.gone)
		l, err := link.Accept(context.Background(), theirs, link.Config{Role: link.Node, ID: a.n.Node, Key: a.n.key, Authorize: a.n.Authorize})
		if err != nil {
			return
		}
		err = l.Run(context.Background(), func(ctx context.Context, in *link.Inbound) error { return a.n.inbound(ctx, l, in) })
		a.n.LinkDown(a.id, l, err)
	}()
	l, err := link.Dial(context.Background(), ours, link.Config{Role: link.Agent, ID: a.id, Key: a.key})
	if err != nil {
		return err
	}
	a.link = l
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.Run(context.Background(), a.serve) }()
	a.drop = sync.OnceFunc(func() { ours.Close(); <-ended; <-a.gone })
	a.n.t.Cleanup(a.drop)
	return nil
}

func (a *agent) mustOpen() *agent {
	a.n.t.Helper()
	if err := a.open(); err != nil {
		a.n.t.Fatal(err)
	}
	return a
}

// inbound is what the node's ingress does with a message of a link.
func (n *node) inbound(ctx context.Context, l *link.Link, in *link.Inbound) error {
	m, via := &reach.Message{Envelope: in.Envelope}, Via{Link: l}
	e, err := n.dispatch(ctx, m, via)
	if err != nil {
		return err
	}
	return in.SendLast(ctx, e)
}

func (n *node) dispatch(ctx context.Context, m *reach.Message, via Via) (*envelope.Envelope, error) {
	switch {
	case m.Header.MsgType == envelope.Heartbeat:
		return n.Heartbeat(ctx, m, via)
	case m.Header.MsgType == envelope.Unregister:
		return n.Unregister(ctx, m, via)
	case m.Header.SourceAgent == n.Node:
		return n.Attach(ctx, m)
	}
	return n.Register(ctx, m, via)
}

// serve answers what the node hands over.
func (a *agent) serve(ctx context.Context, in *link.Inbound) error {
	if a.answer == nil {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	payload, err := a.answer(in.Envelope)
	if err != nil {
		return err
	}
	return in.SendLast(ctx, respond(a.n.t, a.id, a.key, in.Envelope, payload))
}

func respond(t *testing.T, id string, key envelope.PrivateKey, to *envelope.Envelope, payload []byte) *envelope.Envelope {
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), TraceID: to.Header.TraceID, MsgType: envelope.Response, SourceAgent: id, TargetAgent: to.Header.SourceAgent,
		TargetCapability: to.Header.TargetCapability, InReplyTo: to.Header.MsgID, Status: envelope.StatusOK,
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}, payload)
	if err != nil {
		t.Error(err)
		return nil
	}
	envelope.Sign(key, e)
	return e
}

// says is a sealed message of the agent; change may be nil.
func (a *agent) says(kind envelope.MsgType, payload string, change func(*envelope.Header)) *reach.Message {
	a.n.t.Helper()
	h := envelope.Header{
		MsgID: rand.Text(), MsgType: kind, SourceAgent: a.id, ToNode: a.n.Node, Timestamp: envelope.Timestamp{Time: time.Now()},
	}
	if change != nil {
		change(&h)
	}
	e, err := envelope.New(h, []byte(payload))
	if err != nil {
		a.n.t.Fatal(err)
	}
	envelope.Sign(a.key, e)
	return &reach.Message{Envelope: e, FromLoopback: true}
}

// descriptor declares the named capabilities, version 1.0.0, and what extra adds: `,"name": value`.
func (a *agent) descriptor(extra string, capabilities ...string) string {
	list := make([]string, len(capabilities))
	for i, name := range capabilities {
		list[i] = `{"name":"` + name + `","version":"1.0.0"}`
	}
	return `{"agent_id":"` + a.id + `","public_key":"` + a.key.Public().String() + `","capabilities":[` + strings.Join(list, ",") + `]` + extra + `}`
}

// tell sends m over the agent's link, or, if it has none, as if over HTTP.
func (a *agent) tell(m *reach.Message) (standing, error) {
	a.n.t.Helper()
	var answer *envelope.Envelope
	var err error
	if a.link != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = a.link.Call(ctx, m.Envelope, link.Hop{}, func(e *envelope.Envelope) error { answer = e; return nil })
	} else {
		answer, err = a.n.dispatch(context.Background(), m, Via{Remote: netip.MustParseAddr("127.0.0.1")})
	}
	if err != nil {
		return standing{}, err
	}
	if err := answer.Verify(a.n.key.Public()); err != nil {
		a.n.t.Fatal(err)
	}
	if h := answer.Header; h.InReplyTo != m.Header.MsgID || h.SourceAgent != a.n.Node || h.TargetAgent != m.Header.SourceAgent || h.TraceID != m.Header.TraceID {
		a.n.t.Fatalf("answer %s to %s", answer.RawHeader, m.RawHeader)
	}
	var s standing
	if err := json.Unmarshal(answer.Payload, &s); err != nil {
		a.n.t.Fatal(err)
	}
	return s, nil
}

func (a *agent) register(extra string, capabilities ...string) (standing, error) {
	a.n.t.Helper()
	return a.tell(a.says(envelope.Register, a.descriptor(extra, capabilities...), nil))
}

func (a *agent) mustRegister(extra string, capabilities ...string) standing {
	a.n.t.Helper()
	s, err := a.register(extra, capabilities...)
	if err != nil {
		a.n.t.Fatal(err)
	}
	return s
}

func (a *agent) heartbeat(payload string) (standing, error) {
	a.n.t.Helper()
	return a.tell(a.says(envelope.Heartbeat, payload, nil))
}

// call asks for a capability through the node's ingress.
func (a *agent) call(ctx context.Context, capability, payload string) ([]byte, error) {
	a.n.t.Helper()
	m := a.says(envelope.Request, payload, func(h *envelope.Header) { h.TargetCapability, h.ToNode = capability, "" })
	var answer []byte
	err := a.n.ingress.Reach(ctx, m, func(e *envelope.Envelope) error { answer = append([]byte{}, e.Payload...); return nil })
	return answer, err
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v in vain for: %s", patience, what)
		}
	}
}

func (n *node) state(id string) envelope.State {
	v, ok := n.View(id)
	if !ok {
		return envelope.Removed
	}
	return v.State
}

func (n *node) awaitState(id string, s envelope.State) {
	n.t.Helper()
	eventually(n.t, id+" is "+string(s), func() bool { return n.state(id) == s })
}
