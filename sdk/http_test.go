package sdk_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// delivery is what a node, or a caller with a ticket, posts to an agent. Its zero parts are filled in so that it is accepted.
type delivery struct {
	header func(*envelope.Header)
	ticket func(*envelope.Ticket)
	signer envelope.PrivateKey // of the ticket
	sealer envelope.PrivateKey // of the message
	bare   bool                // without a ticket
}

// httpWorld is an HTTP agent attached to a fake node, with a caller's key.
type httpWorld struct {
	t      *testing.T
	node   *fakeNode
	server *httptest.Server
	caller envelope.PrivateKey
	runs   atomic.Int32
	begun  chan struct{} // receives when the handler of wait runs
}

func newHTTPWorld(t *testing.T) *httpWorld {
	w := &httpWorld{t: t, node: newFakeNode(t), caller: envelope.GenerateKey(), begun: make(chan struct{}, 1)}
	var handler http.Handler
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) }))
	t.Cleanup(w.server.Close)
	a := newAgent(t, "inventory", w.node.server.URL, sdk.WithMaxConcurrent(1), sdk.WithMaxPayload(1<<16),
		sdk.WithEndpoint(envelope.Endpoint{Type: envelope.HTTPEndpoint, URL: w.server.URL}))
	handler = a.HTTPHandler()
	a.Handle(sdk.Capability{Name: "count", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) { return w.runs.Add(1), nil })
	a.Handle(sdk.Capability{Name: "wait", Version: "1.0.0"}, func(ctx context.Context, _ *sdk.Request) (any, error) {
		w.begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if resp, err := http.Post(w.server.URL, "application/json", strings.NewReader("{}")); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("before it is attached: %v, %v", resp, err)
	}
	running(t, a)
	w.node.await("a registration", func() bool { return w.node.agents["inventory"] != nil })
	return w
}

func (w *httpWorld) document(d delivery) string {
	h := envelope.Header{
		MsgID: rand.Text(), MsgType: envelope.Request, SourceAgent: "orders", TargetCapability: "count", Timestamp: envelope.Timestamp{Time: time.Now()},
	}
	if d.header != nil {
		d.header(&h)
	}
	t := envelope.Ticket{
		ID: "t", Node: w.node.id(), Caller: "orders", CallerKey: w.caller.Public(), Capability: "count", Agent: "inventory",
		Expires: envelope.Timestamp{Time: time.Now().Add(time.Minute)},
	}
	if d.ticket != nil {
		d.ticket(&t)
	}
	if d.signer.IsZero() {
		d.signer = w.node.key
	}
	if d.sealer.IsZero() {
		d.sealer = w.caller
	}
	ticket, err := envelope.SealTicket(d.signer, t)
	if err != nil {
		w.t.Fatal(err)
	}
	if d.bare {
		ticket = nil
	}
	doc, err := sealedBy(d.sealer, h, `{}`).AppendDocument(nil, ticket)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(doc)
}

func (w *httpWorld) post(doc, wait string) (status int, body string, code envelope.Code) {
	req, err := http.NewRequestWithContext(short(w.t), http.MethodPost, w.server.URL, strings.NewReader(doc))
	if err != nil {
		w.t.Fatal(err)
	}
	if wait != "" {
		req.Header.Set("Agent-Reach-Timeout-Ms", wait)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var p struct {
		Code envelope.Code `json:"code"`
	}
	if resp.StatusCode != http.StatusOK && (json.Unmarshal(b, &p) != nil || resp.Header.Get("Content-Type") != "application/problem+json") {
		w.t.Errorf("%s is no problem document: %s", resp.Status, b)
	}
	return resp.StatusCode, string(b), p.Code
}

func TestDeliveries(t *testing.T) {
	w := newHTTPWorld(t)
	stranger := envelope.GenerateKey()
	for name, c := range map[string]struct {
		d    delivery
		want envelope.Code
	}{
		"good":              {delivery{}, ""},
		"versions":          {delivery{header: func(h *envelope.Header) { h.TargetCapability = "count@^1.0" }}, ""},
		"other version":     {delivery{header: func(h *envelope.Header) { h.TargetCapability = "count@^2.0" }}, envelope.NoRoute},
		"by id":             {delivery{header: func(h *envelope.Header) { h.TargetAgent = "inventory" }}, ""},
		"to another":        {delivery{header: func(h *envelope.Header) { h.TargetAgent = "other" }}, envelope.NoRoute},
		"no ticket":         {delivery{bare: true}, envelope.Forbidden},
		"forged ticket":     {delivery{signer: stranger}, envelope.BadSeal},
		"old ticket":        {delivery{ticket: func(t *envelope.Ticket) { t.Expires.Time = time.Now().Add(-3 * time.Minute) }}, envelope.Expired},
		"eternal ticket":    {delivery{ticket: func(t *envelope.Ticket) { t.Expires.Time = time.Now().Add(time.Hour) }}, envelope.ClockSkew},
		"another's ticket":  {delivery{ticket: func(t *envelope.Ticket) { t.Caller = "other" }}, envelope.Forbidden},
		"for another agent": {delivery{ticket: func(t *envelope.Ticket) { t.Agent = "other" }}, envelope.Forbidden},
		"for another thing": {delivery{ticket: func(t *envelope.Ticket) { t.Capability = "wait" }}, envelope.Forbidden},
		"a probe's ticket":  {delivery{ticket: func(t *envelope.Ticket) { t.Capability = "" }}, envelope.Forbidden},
		"wrong seal":        {delivery{sealer: stranger}, envelope.BadSeal},
		"old":               {delivery{header: func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(-4 * time.Minute) }}, envelope.Expired},
		"of tomorrow":       {delivery{header: func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(4 * time.Minute) }}, envelope.ClockSkew},
		"a minute off":      {delivery{header: func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(time.Minute) }}, ""},
		"a heartbeat":       {delivery{header: func(h *envelope.Header) { h.MsgType, h.ToNode = envelope.Heartbeat, "x" }}, envelope.Unsupported},
	} {
		before := w.runs.Load()
		status, body, code := w.post(w.document(c.d), "")
		if code != c.want || c.want == "" && status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if ran := w.runs.Load() - before; ran != 0 && c.want != "" || ran != 1 && c.want == "" {
			t.Errorf("%s: ran %d times", name, ran)
		}
	}
}

func TestDeliveredTwiceRunsOnce(t *testing.T) {
	w := newHTTPWorld(t)
	doc := w.document(delivery{})
	status, _, _ := w.post(doc, "")
	_, _, code := w.post(doc, "")
	if status != http.StatusOK || code != envelope.Duplicate || w.runs.Load() != 1 {
		t.Errorf("%d, then %s; ran %d times", status, code, w.runs.Load())
	}
}

func TestDeliveredBeyondTheLimit(t *testing.T) {
	w := newHTTPWorld(t)
	waiting := make(chan int, 1)
	wait := delivery{header: func(h *envelope.Header) { h.TargetCapability = "wait" }, ticket: func(t *envelope.Ticket) { t.Capability = "wait" }}
	go func() {
		status, _, _ := w.post(w.document(wait), "700")
		waiting <- status
	}()
	within(t, w.begun, "the handler")
	doc := w.document(delivery{})
	if _, body, code := w.post(doc, ""); code != envelope.Overloaded || !strings.Contains(body, "retry_after_ms") {
		t.Errorf("beyond the limit: %s", body)
	}
	if status := within(t, waiting, "the end of its time"); status != http.StatusOK { // the handler's error is an answer
		t.Errorf("the waiting one: %d", status)
	}
	if !eventually(func() bool { status, _, _ := w.post(doc, ""); return status == http.StatusOK }) {
		t.Error("what was refused as overloaded is refused as a duplicate")
	}
}

func TestProbe(t *testing.T) {
	w := newHTTPWorld(t)
	probe := func(d delivery) (int, string, envelope.Code) {
		d.header = func(h *envelope.Header) {
			h.MsgType, h.SourceAgent, h.TargetAgent, h.TargetCapability, h.ToNode = envelope.Heartbeat, w.node.id(), "inventory", "", w.node.id()
		}
		return w.post(w.document(d), "")
	}
	status, body, _ := probe(delivery{sealer: w.node.key, ticket: func(t *envelope.Ticket) {
		t.Caller, t.CallerKey, t.Capability = w.node.id(), w.node.key.Public(), ""
	}})
	e, _, err := envelope.Decode([]byte(body), 1000)
	if status != http.StatusOK || err != nil || e.Verify(w.node.agents["inventory"].key) != nil || e.Header.MsgType != envelope.Response {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ := probe(delivery{sealer: w.node.key}); status == http.StatusOK {
		t.Errorf("a probe with a caller's ticket: %s", body)
	}
}

func TestDeliveredNonsense(t *testing.T) {
	w := newHTTPWorld(t)
	for doc, want := range map[string]envelope.Code{
		``: envelope.Malformed, `[]`: envelope.Malformed, `{"envelope":{}}`: envelope.Malformed,
		`{"envelope":` + strings.Repeat(" ", 1<<17) + `{}}`: envelope.TooLarge,
	} {
		if status, body, code := w.post(doc, ""); code != want || status == http.StatusOK {
			t.Errorf("%.40q: %d %s", doc, status, body)
		}
	}
	resp, err := http.Get(w.server.URL)
	if err != nil || resp.StatusCode != http.StatusNotImplemented || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %v, %v", resp, err)
	}
}

// TestOutcomesAreTold has a caller whose direct calls fail and succeed; the node hears one outcome for each ticket.
func TestOutcomesAreTold(t *testing.T) {
	w := newHTTPWorld(t)
	w.node.lookup = func() any {
		ticket := func(id, agent string) jsonText {
			b, err := envelope.SealTicket(w.node.key, envelope.Ticket{
				ID: id, Node: w.node.id(), Caller: "orders", CallerKey: w.caller.Public(), Capability: "count", Agent: agent,
				Expires: envelope.Timestamp{Time: time.Now().Add(time.Minute)},
			})
			if err != nil {
				t.Error(err)
			}
			return jsonText(b)
		}
		candidate := func(id, agent, url string) map[string]any {
			return map[string]any{
				"agent": agent, "version": "1.0.0", "score": 9.5, "endpoint": map[string]string{"type": "http", "url": url},
				"public_key": w.node.agents["inventory"].key, "ticket": ticket(id, agent), "factors": map[string]any{},
			}
		}
		return map[string]any{"not_direct": 0, "candidates": []any{
			candidate("bad-ticket", "gone", "http://127.0.0.1:1/rpc"), candidate("good-ticket", "inventory", w.server.URL),
		}}
	}
	caller := newAgent(t, "orders", w.node.server.URL, sdk.WithKey(w.caller))
	for range 20 {
		r, err := caller.Do(short(t), sdk.Call{Capability: "count", Direct: true, Conversation: "c-1"})
		if err != nil || !r.Direct || r.Agent != "inventory" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	told := func(id string) (times int) {
		for i, kind := range w.node.said {
			if kind == envelope.Heartbeat {
				times += strings.Count(w.node.bodies[i], id)
			}
		}
		return times
	}
	w.node.await("both outcomes", func() bool { return told("good-ticket") > 0 && told("bad-ticket") > 0 })
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	last := w.node.bodies[len(w.node.bodies)-1]
	if told("good-ticket") != 1 || told("bad-ticket") != 1 || !strings.Contains(last, `"ok":true`) || !strings.Contains(last, `"ok":false,"code":"unreachable"`) {
		t.Errorf("told %d and %d times; the last heartbeat is %s", told("good-ticket"), told("bad-ticket"), last)
	}
}

// jsonText stands in a document as it is.
type jsonText []byte

func (j jsonText) MarshalJSON() ([]byte, error) { return j, nil }

func FuzzDelivery(f *testing.F) {
	n := &fakeNode{key: envelope.GenerateKey()}
	a, err := sdk.New("inventory", sdk.WithLogger(quiet()), sdk.WithMaxPayload(1000))
	if err != nil {
		f.Fatal(err)
	}
	a.Handle(sdk.Capability{Name: "count", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) { panic("must not run") })
	w := &httpWorld{node: n, caller: envelope.GenerateKey()}
	f.Add(w.document(delivery{}))
	f.Add(w.document(delivery{bare: true}))
	f.Add(`{"envelope":{},"ticket":null}`)
	handler := a.HTTPHandler()
	f.Fuzz(func(t *testing.T, body string) {
		out := httptest.NewRecorder()
		handler.ServeHTTP(out, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if out.Code < 400 { // there is no node: nothing can be admitted
			t.Errorf("%d %s", out.Code, out.Body)
		}
	})
}
