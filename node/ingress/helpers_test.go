package ingress

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/envelope/seen"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// soon bounds every wait in these tests.
const soon = 10 * time.Second

// world is one node with everything real but its registry, which is seats below.
type world struct {
	testing.TB
	key      envelope.PrivateKey
	id       string
	server   *Server
	seats    *seats
	registry Registry // nil: the router role
	cfg      Config
	deps     Deps
	addr     string
	log      *lockedBuffer
	stop     context.CancelFunc
	stopped  chan error
}

// newWorld makes a node that does not listen yet.
func newWorld(t testing.TB, change ...func(*world)) *world {
	key := envelope.GenerateKey()
	w := &world{TB: t, key: key, id: key.Public().Fingerprint(), log: &lockedBuffer{}}
	w.seats = &seats{world: w, keys: map[string]envelope.PublicKey{w.id: key.Public()}, schemas: schema.NewStore(), directory: gossip.NewDirectory()}
	w.cfg = Config{NodeID: w.id, Key: key, Role: "router_and_registry", Version: "test", SelectMode: "best", DrainTimeout: soon}
	w.deps = w.parts()
	w.registry = w.seats
	for _, f := range change {
		f(w)
	}
	w.deps.Registry = w.registry
	w.server = New(w.cfg, w.deps)
	return w
}

func (w *world) parts() Deps {
	paths := reach.NewPaths(reach.DefaultWeights)
	admission := reach.NewAdmission(reach.AdmissionConfig{
		MaxPayload: envelope.DefaultMaxPayload, RequireSignature: true, Keys: w.seats, Seen: seen.New(seen.Config{}),
	})
	home := reach.NewHome(reach.HomeConfig{Node: w.id, Admission: admission, Paths: paths})
	in := reach.NewIngress(reach.IngressConfig{
		Node: w.id, Admission: admission, Directory: w.seats.directory, Schemas: w.seats.schemas, Paths: paths, Home: home,
		Routing: reach.Routing{Mode: reach.Best, TopN: 3, Retry: true, MaxRetry: 2},
	})
	return Deps{
		Ingress: in, Directory: w.seats.directory, Paths: paths, Admission: admission, Home: home, Keys: w.seats,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// start makes a node that listens, until the test ends.
func start(t testing.TB, change ...func(*world)) *world {
	w := newWorld(t, change...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.run(l)
	return w
}

func (w *world) run(l net.Listener) {
	ctx, stop := context.WithCancel(w.Context())
	w.addr, w.stop, w.stopped = l.Addr().String(), stop, make(chan error, 1)
	go func() { w.stopped <- w.server.Run(ctx, l) }()
	w.Cleanup(func() {
		stop()
		select {
		case err := <-w.stopped:
			if err != nil {
				w.Errorf("Run: %v", err)
			}
		case <-time.After(2 * soon):
			w.Errorf("Run did not return")
		}
	})
}

// party is an agent as the tests play it.
type party struct {
	*world
	id   string
	key  envelope.PrivateKey
	link *link.Link
}

// header is one that is complete but for what the test is about.
func (p *party) header(kind envelope.MsgType) envelope.Header {
	h := envelope.Header{MsgID: rand.Text(), MsgType: kind, SourceAgent: p.id, TTLSec: 30, Timestamp: envelope.Timestamp{Time: time.Now().UTC()}}
	switch kind {
	case envelope.Register, envelope.Heartbeat, envelope.Unregister:
		h.ToNode = p.world.id
	}
	return h
}

func (p *party) seal(h envelope.Header, payload string) *envelope.Envelope {
	e, err := envelope.New(h, []byte(payload))
	if err != nil {
		p.Fatal(err)
	}
	envelope.Sign(p.key, e)
	return e
}

func (p *party) request(capability, payload string) *envelope.Envelope {
	h := p.header(envelope.Request)
	h.TargetCapability = capability
	return p.seal(h, payload)
}

func (p *party) descriptor(capabilities ...string) *envelope.Descriptor {
	d := &envelope.Descriptor{AgentID: p.id, PublicKey: p.key.Public(), Capabilities: []envelope.Capability{}}
	for _, name := range capabilities {
		d.Capabilities = append(d.Capabilities, envelope.Capability{Name: name, Version: "1.0.0", Description: "does " + name})
	}
	return d
}

func (p *party) registration(d *envelope.Descriptor) *envelope.Envelope {
	return p.seal(p.header(envelope.Register), string(encode(p, d)))
}

func encode(t testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// caller registers over HTTP and offers nothing.
func (w *world) caller(id string) *party {
	p := &party{world: w, id: id, key: envelope.GenerateKey()}
	if got := w.post("/v1/agents", p.registration(p.descriptor())); got.status != http.StatusOK {
		w.Fatalf("register %s: %d %s", id, got.status, got.body)
	}
	return p
}

// dial opens a link as id.
func (w *world) dial(id string, key envelope.PrivateKey, role link.Role, h link.Handler) (*party, error) {
	ctx, cancel := context.WithTimeout(w.Context(), soon)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+w.addr+"/v1/link", &websocket.DialOptions{Subprotocols: []string{link.Subprotocol}})
	if err != nil {
		return nil, err
	}
	l, err := link.Dial(ctx, link.WebSocket(ws), link.Config{Role: role, ID: id, Key: key})
	if err != nil {
		return nil, err
	}
	go l.Run(context.Background(), h)
	w.Cleanup(func() { l.Close(nil); <-l.Done() })
	return &party{world: w, id: id, key: key, link: l}, nil
}

// answering is what an agent of the tests does with a request: it sends parts, and its error ends the call.
type answering func(ctx context.Context, e *envelope.Envelope, send func(payload string) error) error

// agent attaches an agent over a link and offers capabilities.
func (w *world) agent(id string, do answering, capabilities ...string) *party {
	p := &party{world: w, id: id, key: envelope.GenerateKey()}
	linked, err := w.dial(id, p.key, link.Agent, func(ctx context.Context, in *link.Inbound) error {
		return do(ctx, in.Envelope, func(payload string) error { return in.Send(ctx, p.answer(in.Envelope, payload)) })
	})
	if err != nil {
		w.Fatal(err)
	}
	p.link = linked.link
	if _, err := p.ask(p.registration(p.descriptor(capabilities...))); err != nil {
		w.Fatal(err)
	}
	return p
}

// echo answers with the request's payload.
func echo(_ context.Context, e *envelope.Envelope, send func(string) error) error {
	return send(string(e.Payload))
}

// answer is the response envelope to e.
func (p *party) answer(e *envelope.Envelope, payload string) *envelope.Envelope {
	h := p.header(envelope.Response)
	h.InReplyTo, h.TraceID, h.TargetAgent, h.TargetCapability = e.Header.MsgID, e.Header.TraceID, e.Header.SourceAgent, e.Header.TargetCapability
	h.Status = envelope.StatusOK
	if text, failed := strings.CutPrefix(payload, "error:"); failed {
		h.Status, h.Error = envelope.StatusError, jsontext.Value(`{"code":"agent_error","text":"`+text+`"}`)
		payload = "null"
	}
	return p.seal(h, payload)
}

// ask sends e over the party's link and returns the parts of the answer.
func (p *party) ask(e *envelope.Envelope) (parts []*envelope.Envelope, err error) {
	ctx, cancel := context.WithTimeout(p.Context(), soon)
	defer cancel()
	deadline, _ := ctx.Deadline()
	err = p.link.Call(ctx, e, link.Hop{Deadline: deadline, HopsLeft: 3}, func(part *envelope.Envelope) error {
		parts = append(parts, part)
		return nil
	})
	return parts, err
}

// got is an HTTP answer, read whole.
type got struct {
	status int
	header http.Header
	body   []byte
}

func (w *world) url(path string) string { return "http://" + w.addr + path }

func (w *world) post(path string, e *envelope.Envelope, headers ...string) got {
	return w.send("POST", path, document(w, e), headers...)
}

func document(t testing.TB, e *envelope.Envelope) []byte {
	doc, err := e.AppendDocument(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// send makes a request; headers are name, value, name, value….
func (w *world) send(method, path string, body []byte, headers ...string) got {
	resp, err := w.open(w.Context(), method, path, body, headers...)
	if err != nil {
		w.Fatal(err)
	}
	return read(w, resp)
}

func (w *world) open(ctx context.Context, method, path string, body []byte, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url(path), bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return client.Do(req)
}

var client = &http.Client{Timeout: 2 * soon, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}

func read(t testing.TB, resp *http.Response) got {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got{resp.StatusCode, resp.Header, body}
}

// envelope reads the one document of an answer.
func (g got) envelope(t testing.TB) *envelope.Envelope {
	t.Helper()
	if g.status != http.StatusOK || g.header.Get("Content-Type") != jsonType {
		t.Fatalf("no document: %d %s %s", g.status, g.header.Get("Content-Type"), g.body)
	}
	return decode(t, g.body)
}

func decode(t testing.TB, doc []byte) *envelope.Envelope {
	t.Helper()
	e, _, err := envelope.Decode(doc, envelope.DefaultMaxPayload)
	if err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return e
}

// problem reads a problem document and holds it to its code.
func (g got) problem(t testing.TB, code envelope.Code, status int) problem {
	t.Helper()
	if g.header.Get("Content-Type") != problemType {
		t.Fatalf("no problem document: %d %s %s", g.status, g.header.Get("Content-Type"), g.body)
	}
	var p problem
	if err := json.Unmarshal(g.body, &p, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, g.body)
	}
	if p.Code != code || g.status != status || p.Status != status || p.Type != "urn:agent-reach:error:"+string(code) {
		t.Fatalf("status %d, want %d %s: %s", g.status, status, code, g.body)
	}
	if p.Detail == "" || p.Title == "" {
		t.Fatalf("a problem without a sentence: %s", g.body)
	}
	return p
}

// lockedBuffer is a log that tests can read.
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

func wait[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(soon):
		t.Fatalf("waited %v for %s", soon, what)
	}
	return v
}

func unmarshal(t testing.TB, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
}

// await polls until what is awaited holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(soon)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited %v for %s", soon, what)
		}
	}
}
