package scenario

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

// voice is a caller that writes its own envelopes, to say what no SDK would say.
type voice struct {
	t    testing.TB
	node *node
	id   string
	key  envelope.PrivateKey
	http *http.Client
}

// newVoice makes a caller that its node does not know yet.
func newVoice(t testing.TB, n *node, id string) *voice {
	client := &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(client.CloseIdleConnections)
	return &voice{t, n, id, envelope.GenerateKey(), client}
}

// registered is newVoice, known to its node.
func registered(t testing.TB, n *node, id string) *voice {
	t.Helper()
	v := newVoice(t, n, id)
	if a := v.register(); a.status != http.StatusOK {
		t.Fatalf("register: %d %s", a.status, a.body)
	}
	return v
}

func (v *voice) register() reply {
	v.t.Helper()
	h := v.header(envelope.Register, "")
	h.ToNode = v.node.id(v.t)
	return v.post("/v1/agents", v.document(h, v.descriptor()))
}

// descriptor is that of an agent that only calls.
func (v *voice) descriptor() string {
	return `{"agent_id": "` + v.id + `", "capabilities": [], "public_key": "` + v.key.Public().String() + `"}`
}

// header is that of a message made now.
func (v *voice) header(kind envelope.MsgType, capability string) envelope.Header {
	return envelope.Header{
		Version: envelope.Version, MsgID: rand.Text(), MsgType: kind, SourceAgent: v.id, TargetCapability: capability,
		Timestamp: envelope.Timestamp{Time: time.Now().UTC()}, TTLSec: 30,
	}
}

// seal makes and seals a message that is as it should be.
func (v *voice) seal(h envelope.Header, payload string) *envelope.Envelope {
	v.t.Helper()
	e, err := envelope.New(h, []byte(payload))
	must(v.t, err)
	envelope.Sign(v.key, e)
	return e
}

func (v *voice) document(h envelope.Header, payload string) []byte {
	v.t.Helper()
	doc, err := v.seal(h, payload).AppendDocument(nil, nil)
	must(v.t, err)
	return doc
}

// rawSeal seals any bytes as header and payload.
func (v *voice) rawSeal(header, payload string) *envelope.Envelope {
	e := &envelope.Envelope{RawHeader: []byte(header), Payload: []byte(payload)}
	envelope.Sign(v.key, e)
	return e
}

// rawDocument is rawSeal as a document.
func (v *voice) rawDocument(header, payload string) []byte {
	v.t.Helper()
	doc, err := v.rawSeal(header, payload).AppendDocument(nil, nil)
	must(v.t, err)
	return doc
}

// headerWith is the text of a good header in which one member is replaced, or removed where value is empty.
func (v *voice) headerWith(capability, member, value string) string {
	v.t.Helper()
	h := v.header(envelope.Request, capability)
	b, err := json.Marshal(&h)
	must(v.t, err)
	var all map[string]any
	must(v.t, json.Unmarshal(b, &all))
	delete(all, member)
	b, err = json.Marshal(all)
	must(v.t, err)
	if value == "" {
		return string(b)
	}
	return strings.TrimSuffix(string(b), "}") + `,"` + member + `":` + value + "}"
}

// reply is an answer over HTTP.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// problem is an RFC 9457 document, or an error object.
type problem struct {
	Type    string           `json:"type"`
	Title   string           `json:"title"`
	Status  int              `json:"status"`
	Detail  string           `json:"detail"`
	Code    envelope.Code    `json:"code"`
	Step    string           `json:"step"`
	Hint    string           `json:"hint"`
	TraceID string           `json:"trace_id"`
	Places  []envelope.Place `json:"places"`
}

func (r reply) problem(t testing.TB) (p problem) {
	t.Helper()
	if kind := r.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Fatalf("HTTP %d is no problem document but %s: %s", r.status, kind, r.body)
	}
	must(t, json.Unmarshal(r.body, &p))
	return p
}

// answer reads a response envelope.
func (r reply) answer(t testing.TB) *envelope.Envelope {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("HTTP %d: %s", r.status, r.body)
	}
	e, _, err := envelope.Decode(r.body, 64<<20)
	must(t, err)
	return e
}

// post sends a document, with headers as name, value, name, value.
func (v *voice) post(path string, doc []byte, headers ...string) reply {
	v.t.Helper()
	r, err := v.tryPost(v.t.Context(), path, doc, headers...)
	must(v.t, err)
	return r
}

func (v *voice) tryPost(ctx context.Context, path string, doc []byte, headers ...string) (reply, error) {
	return v.tryDo(ctx, http.MethodPost, path, doc, headers...)
}

// do is post with another method.
func (v *voice) do(method, path string, doc []byte) reply {
	v.t.Helper()
	r, err := v.tryDo(v.t.Context(), method, path, doc)
	must(v.t, err)
	return r
}

func (v *voice) tryDo(ctx context.Context, method, path string, doc []byte, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, v.node.url+path, bytes.NewReader(doc))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := v.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b}, err
}

// ask posts a request for the capability, made now.
func (v *voice) ask(capability, payload string) reply {
	v.t.Helper()
	return v.post("/v1/messages", v.document(v.header(envelope.Request, capability), payload))
}

// dial opens a link in the voice's name.
func (v *voice) dial(handle link.Handler) (*link.Link, error) {
	v.t.Helper()
	ctx := short(v.t)
	conn, _, err := websocket.Dial(ctx, "ws://"+v.node.addr+"/v1/link", &websocket.DialOptions{Subprotocols: []string{link.Subprotocol}})
	must(v.t, err)
	l, err := link.Dial(ctx, link.WebSocket(conn), link.Config{
		Role: link.Agent, ID: v.id, Key: v.key, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	go l.Run(context.Background(), handle)
	v.t.Cleanup(func() { l.Close(nil); <-l.Done() })
	return l, nil
}

// say sends a message over a link and returns the only part of its answer.
func say(ctx context.Context, l *link.Link, e *envelope.Envelope) (answer *envelope.Envelope, err error) {
	deadline, _ := ctx.Deadline()
	err = l.Call(ctx, e, link.Hop{Deadline: deadline, HopsLeft: 3}, func(part *envelope.Envelope) error {
		answer = part
		return nil
	})
	return answer, err
}
