package httpagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// receive checks a delivered document as an SDK does.
func receive(t *testing.T, r *http.Request) (*envelope.Envelope, envelope.Ticket) {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength != int64(len(b)) || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d bytes, Content-Length %d, %v, %v", len(b), r.ContentLength, r.Header, err)
	}
	e, doc, err := envelope.Decode(b, 1<<20)
	if err != nil {
		t.Error(err)
		return nil, envelope.Ticket{}
	}
	ticket, err := envelope.OpenTicket(doc, nodeKey.Public(), time.Now())
	if err == nil {
		err = ticket.Admits(e, agentID)
	}
	if err == nil {
		err = e.Verify(ticket.CallerKey)
	}
	if life := time.Until(ticket.Expires.Time); err != nil || life > envelope.MaxTicketLife || life < envelope.MaxTicketLife/2 {
		t.Error(life, err)
	}
	return e, ticket
}

func TestSealedCall(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		e, ticket := receive(t, r)
		if ticket.CallerKey != callerKey.Public() || ticket.Node != nodeID || ticket.Capability != "stock.query" {
			t.Errorf("%+v", ticket)
		}
		if ms, err := strconv.Atoi(r.Header.Get("Agent-Reach-Timeout-Ms")); err != nil || ms < 1 || ms > int(patience.Milliseconds()) {
			t.Errorf("Agent-Reach-Timeout-Ms: %d, %v", ms, err)
		}
		if r.Header.Get("Traceparent") != "00-a-b-01" {
			t.Errorf("%v", r.Header)
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Write(respond(t, e, `{"quantity":42}`))
	})
	m := ask(t, `{"sku":"A"}`, func(h *envelope.Header) { h.Traceparent = "00-a-b-01" })
	parts, err := call(t, newTestAgent(t, s.URL, nil), m)
	if err != nil || len(parts) != 1 || string(parts[0].Payload) != `{"quantity":42}` {
		t.Fatal(parts, err)
	}
	if err := parts[0].Verify(agentKey.Public()); err != nil {
		t.Fatal(err)
	}
}

// Parts come as they are written, and a sink that has enough ends the call.
func TestSealedStream(t *testing.T) {
	proceed := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		e, _ := receive(t, r)
		w.Header().Set("Content-Type", "application/x-ndjson")
		for i := range 3 {
			fmt.Fprintf(w, "%s\r\n\n", respond(t, e, strconv.Itoa(i)))
			w.(http.Flusher).Flush()
			<-proceed
		}
	})
	a := newTestAgent(t, s.URL, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	err := a.Call(ctx, ask(t, "{}", nil), func(e *envelope.Envelope) error {
		got = append(got, string(e.Payload))
		proceed <- struct{}{}
		return nil
	})
	if err != nil || strings.Join(got, " ") != "0 1 2" {
		t.Fatal(got, err)
	}
	enough := errors.New("enough")
	if err := a.Call(ctx, ask(t, "{}", nil), func(*envelope.Envelope) error { return enough }); err != enough {
		t.Fatal(err)
	}
	close(proceed)
}

func TestSealedBadAnswers(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		e, _ := receive(t, r)
		say := func(kind string, status int, body string) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
		switch r.URL.Path {
		case "/html":
			say("text/html", 200, "<html>welcome")
		case "/notjson":
			say("application/json", 200, "nope")
		case "/halfline":
			say("application/x-ndjson", 200, string(respond(t, e, "1"))+"\n{\"envelope\"")
		case "/longline":
			say("application/x-ndjson", 200, string(bytes.Repeat([]byte("x"), 200<<10)))
		case "/long":
			say("application/json", 200, string(respond(t, e, `"`+strings.Repeat("x", 70<<10)+`"`)))
		case "/302":
			w.Header().Set("Location", "http://elsewhere.example/")
			say("application/json", 302, "{}")
		case "/503":
			w.Header().Set("Retry-After", time.Now().Add(5*time.Second).UTC().Format(http.TimeFormat))
			say("text/plain", 503, "draining")
		case "/problem":
			say("application/problem+json", 422, `{"type":"urn:agent-reach:error:schema_invalid","code":"schema_invalid","detail":"no sku","status":422,"hint":"add it","places":[{"pointer":"/sku","text":"missing"}]}`)
		case "/overloaded":
			say("application/problem+json", 429, `{"code":"overloaded","detail":"full","retry_after_ms":1500}`)
		case "/unknown":
			say("application/problem+json", 500, `{"code":"out_of_cheese"}`)
		}
	})
	for path, want := range map[string]struct {
		code envelope.Code
		says string
	}{
		"/html":       {envelope.Malformed, "welcome"},
		"/notjson":    {envelope.Malformed, "the answer of stock"},
		"/halfline":   {envelope.Malformed, "the answer of stock"},
		"/longline":   {envelope.TooLarge, "65536"},
		"/long":       {envelope.TooLarge, "65536"},
		"/302":        {envelope.Malformed, "redirects to http://elsewhere.example/"},
		"/503":        {envelope.Overloaded, "draining"},
		"/problem":    {envelope.SchemaError, `stock: no sku; "/sku": missing (add it)`},
		"/overloaded": {envelope.Overloaded, "stock: full"},
		"/unknown":    {envelope.Malformed, "out_of_cheese"},
	} {
		_, err := call(t, newTestAgent(t, s.URL+path, nil), ask(t, "{}", nil))
		wantError(t, err, want.code, want.says)
		e := envelope.AsError(err)
		if e.Code == envelope.Overloaded != (e.RetryAfter > 0) {
			t.Errorf("%s: retry after %v", path, e.RetryAfter)
		}
		if atAnswer := e.Step == envelope.StepAnswer; atAnswer == e.Code.NotRun() {
			t.Errorf("%s: step %s", path, e.Step)
		}
	}
}

func TestSealedNeedsTheCallersKey(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was handed over") })
	_, err := call(t, newTestAgent(t, s.URL, nil), ask(t, "{}", func(h *envelope.Header) { h.SourceAgent = "nobody" }))
	wantError(t, err, envelope.UnknownAgent, "nobody")
	_, err = call(t, newTestAgent(t, s.URL, nil), ask(t, "no json", nil))
	wantError(t, err, envelope.Malformed)
}

func TestSealedProbe(t *testing.T) {
	answer := func(e *envelope.Envelope) []byte { return respond(t, e, "{}") }
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		e, ticket := receive(t, r)
		if e.Header.MsgType != envelope.Heartbeat || e.Header.SourceAgent != nodeID || e.Header.TargetAgent != agentID || ticket.Capability != "" || ticket.CallerKey != nodeKey.Public() {
			t.Errorf("%s, %+v", e.RawHeader, ticket)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer(e))
	})
	probe := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return newTestAgent(t, s.URL, nil).Probe(ctx)
	}
	if err := probe(); err != nil {
		t.Fatal(err)
	}
	answer = func(e *envelope.Envelope) []byte {
		out, _, _ := envelope.Decode(respond(t, e, "{}"), 100)
		envelope.Sign(callerKey, out)
		doc, _ := out.AppendDocument(nil, nil)
		return doc
	}
	wantError(t, probe(), envelope.BadSeal)
	answer = func(*envelope.Envelope) []byte { return respond(t, ask(t, "", nil).Envelope, "{}") }
	wantError(t, probe(), envelope.Malformed, "in reply to")
	answer = func(*envelope.Envelope) []byte { return nil }
	wantError(t, probe(), envelope.Malformed)
}

// Whatever an agent answers ends as parts or as an envelope.Error.
func FuzzAnswer(f *testing.F) {
	m := ask(f, "{}", nil)
	doc := string(respond(f, m.Envelope, `{"a":1}`))
	f.Add(200, "application/json", "", doc)
	f.Add(200, "application/x-ndjson; a=b", "", doc+"\n\n"+doc)
	f.Add(429, "application/problem+json", "3", `{"code":"overloaded","retry_after_ms":-1}`)
	f.Add(503, "text/html", "Thu, 01 Jan 1970 00:00:00 GMT", "<html>")
	f.Add(301, "", "", "\xff\x00")
	sealed, err1 := New(Config{Agent: agentID, URL: "http://a/", Key: agentKey.Public(), MaxPayload: 100})
	bare, err2 := New(Config{Agent: agentID, URL: "http://a/", VouchKey: agentKey, MaxPayload: 100, Node: nodeID})
	if err1 != nil || err2 != nil {
		f.Fatal(err1, err2)
	}
	f.Fuzz(func(t *testing.T, status int, kind, after, body string) {
		resp := func() *http.Response {
			return &http.Response{
				StatusCode: status, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body)),
				Header: http.Header{"Content-Type": {kind}, "Retry-After": {after}, "Location": {body}},
			}
		}
		check := func(err error) {
			var e *envelope.Error
			if err != nil && (!errors.As(err, &e) || e.Code.Title() == "" || e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter) {
				t.Fatalf("%+v", err)
			}
		}
		check(sealed.documents(t.Context(), resp(), func(*envelope.Envelope) error { return nil }))
		e, err := bare.vouch(t.Context(), resp(), &m.Header)
		check(err)
		if err == nil {
			if _, err := e.AppendDocument(nil, nil); err != nil || e.Verify(agentKey.Public()) != nil {
				t.Fatal(err, "a vouched response cannot travel")
			}
		}
	})
}
