package sdk_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/sdk"
)

// fakeNode is as much of a node as an agent sees, made to misbehave. What a node does when it behaves is tested with the real one.
type fakeNode struct {
	t      *testing.T
	key    envelope.PrivateKey
	server *httptest.Server
	// on, if set, answers in place of the node; false: the node answers as usual.
	on func(in *link.Inbound) (handled bool, err error)
	// authorize refuses links.
	authorize func(link.Peer) error
	// lookup is the answer to look-ups.
	lookup func() any

	mu     sync.Mutex
	agents map[string]*fakeSeat
	said   []envelope.MsgType
	bodies []string
	heard  chan struct{} // closed and replaced with every message
}

type fakeSeat struct {
	link       *link.Link
	key        envelope.PublicKey
	descriptor *envelope.Descriptor
}

func newFakeNode(t *testing.T) *fakeNode {
	n := &fakeNode{t: t, key: envelope.GenerateKey(), agents: make(map[string]*fakeSeat), heard: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/link", n.serveLink)
	mux.HandleFunc("GET /v1/agents/{id}", n.serveAgent)
	mux.HandleFunc("POST /v1/lookup", func(w http.ResponseWriter, r *http.Request) {
		b, _ := json.Marshal(n.lookup())
		w.Write(b)
	})
	n.server = httptest.NewServer(mux)
	t.Cleanup(n.server.Close)
	return n
}

func (n *fakeNode) id() string { return n.key.Public().Fingerprint() }

func (n *fakeNode) serveAgent(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	seat := n.agents[r.PathValue("id")]
	n.mu.Unlock()
	if seat == nil {
		http.Error(w, `{"code": "no_route", "detail": "who?"}`, http.StatusNotFound)
		return
	}
	b, _ := json.Marshal(map[string]any{"agent_id": r.PathValue("id"), "capabilities": []any{map[string]any{"public_key": "not this"}}, "public_key": seat.key})
	w.Write(b)
}

func (n *fakeNode) serveLink(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{link.Subprotocol}})
	if err != nil {
		return
	}
	l, err := link.Accept(r.Context(), link.WebSocket(ws), link.Config{
		Role: link.Node, ID: n.id(), Key: n.key, Authorize: n.authorize, Log: quiet(),
	})
	if err != nil {
		return
	}
	l.Run(context.Background(), func(ctx context.Context, in *link.Inbound) error { return n.take(ctx, l, in) })
}

func (n *fakeNode) take(ctx context.Context, l *link.Link, in *link.Inbound) error {
	h := &in.Envelope.Header
	n.mu.Lock()
	n.said = append(n.said, h.MsgType)
	n.bodies = append(n.bodies, string(in.Envelope.Payload))
	n.tell()
	on := n.on
	n.mu.Unlock()
	if on != nil {
		if handled, err := on(in); handled {
			return err
		}
	}
	switch h.MsgType {
	case envelope.Register:
		d, err := envelope.DecodeDescriptor(in.Envelope.Payload)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.agents[d.AgentID] = &fakeSeat{l, d.PublicKey, d}
		n.tell()
		n.mu.Unlock()
		return in.SendLast(ctx, n.answer(h, `{"state":"available","score":10}`))
	case envelope.Heartbeat, envelope.Unregister:
		return in.SendLast(ctx, n.answer(h, `{"state":"available","score":10}`))
	}
	return n.route(ctx, in)
}

// tell wakes who awaits something. The caller holds mu.
func (n *fakeNode) tell() {
	close(n.heard)
	n.heard = make(chan struct{})
}

func (n *fakeNode) route(ctx context.Context, in *link.Inbound) error {
	target, _ := envelope.ParseTarget(in.Envelope.Header.TargetCapability)
	n.mu.Lock()
	var to *fakeSeat
	for id, seat := range n.agents {
		for _, c := range seat.descriptor.Capabilities {
			if c.Name == target.Name && (in.Envelope.Header.TargetAgent == "" || in.Envelope.Header.TargetAgent == id) {
				to = seat
			}
		}
	}
	n.mu.Unlock()
	if to == nil {
		return envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "nobody declares %q", target.Name)
	}
	return to.link.Call(ctx, in.Envelope, in.Hop, func(part *envelope.Envelope) error { return in.Send(ctx, part) })
}

// answer is the node's own answer to a message.
func (n *fakeNode) answer(h *envelope.Header, payload string) *envelope.Envelope {
	return sealedBy(n.key, answerTo(h, n.id()), payload)
}

func answerTo(h *envelope.Header, from string) envelope.Header {
	return envelope.Header{
		MsgID: rand.Text(), MsgType: envelope.Response, TraceID: h.TraceID, InReplyTo: h.MsgID, SourceAgent: from,
		TargetAgent: h.SourceAgent, TargetCapability: h.TargetCapability, Status: envelope.StatusOK,
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}
}

func sealedBy(key envelope.PrivateKey, h envelope.Header, payload string) *envelope.Envelope {
	e, err := envelope.New(h, []byte(payload))
	if err != nil {
		panic(err)
	}
	envelope.Sign(key, e)
	return e
}

// await waits until the node heard what the condition wants; the condition holds mu.
func (n *fakeNode) await(want string, ok func() bool) {
	n.t.Helper()
	late := time.After(patience)
	for {
		n.mu.Lock()
		there, heard := ok(), n.heard
		n.mu.Unlock()
		if there {
			return
		}
		select {
		case <-heard:
		case <-late:
			n.t.Fatalf("the node did not hear in time: %s; it heard %v", want, n.said)
		}
	}
}

// count is how often the node heard that type. The caller holds mu.
func (n *fakeNode) count(kind envelope.MsgType) (times int) {
	for _, k := range n.said {
		if k == kind {
			times++
		}
	}
	return times
}

// set changes the node's behaviour while it runs.
func (n *fakeNode) set(on func(in *link.Inbound) (bool, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on = on
}

// breakLinks cuts all links without a word.
func (n *fakeNode) breakLinks() {
	n.server.CloseClientConnections()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, seat := range n.agents {
		go seat.link.Close(nil)
	}
}

// patience is how long a test waits for what should come at once.
const patience = 10 * time.Second

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newAgent(t *testing.T, id string, node string, options ...sdk.Option) *sdk.Agent {
	t.Helper()
	a, err := sdk.New(id, append([]sdk.Option{sdk.WithNode(node), sdk.WithLogger(quiet())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// running runs the agent until the test ends, and reports how Run ended.
func running(t *testing.T, a *sdk.Agent) (stop func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(cancel)
	return cancel, done
}

func within[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
	return v
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
