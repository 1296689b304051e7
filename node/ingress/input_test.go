package ingress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestBodiesThatAreNoMessage(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	good := string(document(t, caller.request("echo", `{"a":1}`)))
	header, _, _ := strings.Cut(strings.TrimPrefix(good, `{"envelope":`), `,"payload"`)
	for name, body := range map[string]string{
		"nothing":               "",
		"no JSON":               "hello",
		"null":                  "null",
		"array":                 "[]",
		"empty object":          "{}",
		"two documents":         good + good,
		"cut short":             good[:len(good)-1],
		"unknown member":        strings.Replace(good, `"payload":`, `"x":1,"payload":`, 1),
		"payload twice":         strings.Replace(good, `"payload":`, `"payload":2,"payload":`, 1),
		"envelope twice":        strings.Replace(good, `{"envelope":`, `{"envelope":`+header+`,"envelope":`, 1),
		"msg_id twice":          strings.Replace(good, `{"envelope":{`, `{"envelope":{"msg_id":"x",`, 1),
		"case of a member":      strings.Replace(good, `"envelope"`, `"Envelope"`, 1),
		"seal of nothing":       strings.Replace(good, `"seal":{`, `"seal":{"x":1,`, 1),
		"header is a string":    `{"envelope":"x"}`,
		"invalid UTF-8":         strings.Replace(good, `"a"`, "\"\xff\"", 1),
		"id with a homoglyph":   strings.Replace(good, `"source_agent":"caller"`, `"source_agent":"cаller"`, 1),
		"id with a line break":  strings.Replace(good, `"source_agent":"caller"`, `"source_agent":"a\r\nX: y"`, 1),
		"deeply nested payload": strings.Replace(good, `{"a":1}`, strings.Repeat("[", 20000)+strings.Repeat("]", 20000), 1),
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/v1/messages", "/v1/agents", "/v1/lookup", "/v1/explain"} {
				p := w.send("POST", path, []byte(body)).problem(t, envelope.Malformed, http.StatusBadRequest)
				if strings.ContainsAny(p.Detail, "\r\n") || !utf8.ValidString(p.Detail) {
					t.Errorf("%q", p.Detail)
				}
			}
		})
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	change := func(f func(*envelope.Header)) *envelope.Envelope {
		h := caller.header(envelope.Request)
		h.TargetCapability = "echo"
		f(&h)
		return caller.seal(h, "1")
	}
	unsealed := *change(func(*envelope.Header) {})
	unsealed.Seal = nil
	answer := caller.header(envelope.Response)
	answer.InReplyTo, answer.Status = "x", "ok"
	for _, c := range []struct {
		name   string
		e      *envelope.Envelope
		code   envelope.Code
		status int
	}{
		{"unknown capability", change(func(h *envelope.Header) { h.TargetCapability = "nobody.has.it" }), envelope.NoRoute, 404},
		{"unknown agent", change(func(h *envelope.Header) { h.TargetAgent = "nobody" }), envelope.NoRoute, 404},
		{"unknown source", change(func(h *envelope.Header) { h.SourceAgent = "stranger" }), envelope.UnknownAgent, 401},
		{"another's name", change(func(h *envelope.Header) { h.SourceAgent = "echoer" }), envelope.BadSeal, 401},
		{"unsealed", &unsealed, envelope.BadSeal, 401},
		{"persistent", change(func(h *envelope.Header) { h.Persistent = true }), envelope.Unsupported, 501},
		{"old", change(func(h *envelope.Header) { h.Timestamp.Time = h.Timestamp.Add(-time.Hour) }), envelope.Expired, 408},
		{"from tomorrow", change(func(h *envelope.Header) { h.Timestamp.Time = h.Timestamp.Add(24 * time.Hour) }), envelope.ClockSkew, 400},
		{"response", caller.seal(answer, "1"), envelope.Malformed, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := w.post("/v1/messages", c.e)
			p := g.problem(t, c.code, c.status)
			if p.TraceID != c.e.Header.TraceID || g.header.Get(traceHeader) != c.e.Header.TraceID || p.Step == "" {
				t.Errorf("trace %q, step %q", p.TraceID, p.Step)
			}
			if p.Hint == "" {
				t.Errorf("no hint: %s", g.body)
			}
		})
	}
}

func TestContentTypes(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	for _, fine := range [][]string{nil, {"application/json"}, {"application/json; charset=utf-8"}, {"APPLICATION/JSON"}} {
		var headers []string
		for _, v := range fine {
			headers = append(headers, "Content-Type", v)
		}
		w.post("/v1/messages", caller.request("echo", "1"), headers...).envelope(t)
	}
	for _, bad := range [][]string{{"text/plain"}, {"application/x-www-form-urlencoded"}, {"multipart/form-data; boundary=x"}, {""}, {"application/json", "text/plain"}, {"application/json;;"}} {
		var headers []string
		for _, v := range bad {
			headers = append(headers, "Content-Type", v)
		}
		p := w.post("/v1/messages", caller.request("echo", "1"), headers...).problem(t, envelope.Malformed, 400)
		if !strings.Contains(p.Detail, "content type") {
			t.Errorf("%q: %s", bad, p.Detail)
		}
	}
}

func TestBodiesThatAreTooLarge(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.MaxPayload = 1000 })
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	limit := w.server.cfg.bodyLimit()
	w.post("/v1/messages", caller.request("echo", `"`+strings.Repeat("x", 998)+`"`)).envelope(t)

	g := w.post("/v1/messages", caller.request("echo", `"`+strings.Repeat("x", 999)+`"`))
	if p := g.problem(t, envelope.TooLarge, 413); !strings.Contains(p.Detail, "1000") {
		t.Errorf("%s", p.Detail)
	}
	for name, body := range map[string]io.Reader{
		"announced": bytes.NewReader(make([]byte, limit+1)),
		"chunked":   io.MultiReader(bytes.NewReader(make([]byte, limit+1))),
		"endless":   io.LimitReader(zeros{}, 1<<30),
	} {
		resp, err := http.Post(w.url("/v1/messages"), jsonType, body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p := read(t, resp).problem(t, envelope.TooLarge, 413); !strings.Contains(p.Detail, fmt.Sprint(limit)) {
			t.Errorf("%s: %s", name, p.Detail)
		}
	}
	// Refused on its announcement, before a byte of it has come.
	raw(t, w, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1099511627776\r\n\r\n").problem(t, envelope.TooLarge, 413)
	if left := w.server.bodies.left.Load(); left != int64(w.server.cfg.MaxBodies) {
		t.Errorf("%d bytes of the budget are left, of %d", left, w.server.cfg.MaxBodies)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestPathsAndMethods(t *testing.T) {
	w := start(t)
	for _, path := range []string{"/", "/v1", "/v2/messages", "/v1/messages/", "/v1//messages", "/v1/x/../messages", "/v1/agents/a/b", "/v1/%6dessages/x", "//v1/messages"} {
		for _, method := range []string{"GET", "POST"} {
			p := raw(t, w, method+" "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").problem(t, envelope.Unsupported, 404)
			if !strings.Contains(p.Detail, "path") {
				t.Errorf("%s: %s", path, p.Detail)
			}
		}
	}
	for path, allow := range map[string]string{
		"/v1/messages": "POST", "/v1/agents": "POST, GET, HEAD", "/v1/agents/x": "DELETE, GET, HEAD", "/v1/agents/x/heartbeat": "PUT",
		"/v1/link": "GET, HEAD", "/metrics": "GET, HEAD",
	} {
		for _, method := range []string{"PATCH", "OPTIONS", "TRACE", "PROPFIND"} {
			g := w.send(method, path, nil)
			g.problem(t, envelope.Unsupported, 405)
			if got := g.header.Get("Allow"); got != allow {
				t.Errorf("%s: Allow %q, want %q", path, got, allow)
			}
		}
	}
	g := raw(t, w, "CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n")
	g.problem(t, envelope.Unsupported, 405)
	if g.header.Get("Connection") != "close" {
		t.Error("the connection of a CONNECT stays open")
	}
	raw(t, w, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").problem(t, envelope.Unsupported, 404)
}

// raw sends bytes as they are and reads one HTTP answer.
func raw(t *testing.T, w *world, request string) got {
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(soon))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	if method == "CONNECT" {
		method = "GET" // or ReadResponse expects a tunnel
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	g := read(t, resp)
	if resp.Close {
		g.header.Set("Connection", "close")
	}
	return g
}

// Case 31: of what callers put into headers nothing reaches an agent or another caller, and nothing but the time-out is obeyed.
func TestHeadersOfCallersAreIgnored(t *testing.T) {
	w := start(t)
	var seen []string
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	g := w.post("/v1/messages", caller.request("echo", "1"),
		"Connection", "keep-alive, X-Secret", "X-Secret", "1", "Agent-Reach-Hops-Left", "0", "Agent-Reach-Attempts", "99", "Agent-Reach-Priority", "1",
		"Agent-Reach-Trace-Id", "forged", "Agent-Reach-Source", "admin", "X-Forwarded-For", "203.0.113.1", "Forwarded", "for=203.0.113.1",
		"Proxy-Authorization", "x", "TE", "trailers", "Trailer", "X", "Upgrade", "h2c", "Mcp-Session-Id", "s", "Transfer-Encoding", "identity",
		"X-HTTP-Method-Override", "DELETE", "Expect", "")
	answer := g.envelope(t)
	if string(answer.Payload) != "1" || g.header.Get(traceHeader) == "forged" {
		t.Fatalf("%s %v", g.body, g.header)
	}
	for name := range g.header {
		seen = append(seen, name)
	}
	slices.Sort(seen)
	if want := []string{"Agent-Reach-Trace-Id", "Content-Length", "Content-Type", "Date", "X-Content-Type-Options"}; !slices.Equal(seen, want) {
		t.Errorf("the answer's headers are %v", seen)
	}
	if g.header.Get("Content-Length") != fmt.Sprint(len(g.body)) {
		t.Errorf("Content-Length %s of %d", g.header.Get("Content-Length"), len(g.body))
	}
}

// Two lengths, or a length and chunks that differ: whoever reads it otherwise could be fed a request of an attacker's.
func TestSmuggledRequests(t *testing.T) {
	w := start(t)
	for _, headers := range []string{
		"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: +5\r\n", "Content-Length: 5, 5\r\n",
		"Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding : chunked\r\n",
	} {
		if g := rawStatus(t, w, "POST /v1/messages HTTP/1.1\r\nHost: x\r\n"+headers+"\r\nhello"); g != 400 && g != 501 {
			t.Errorf("%q: %d", headers, g)
		}
	}
}

func rawStatus(t *testing.T, w *world, request string) int {
	return raw(t, w, request).status
}

func TestHeadersThatAreTooLarge(t *testing.T) {
	w := start(t)
	if got := rawStatus(t, w, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 80<<10)+"\r\n\r\n"); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", got)
	}
}

// HTTP/2 is not served: not on request, not with its preface.
func TestHTTP2IsNotServed(t *testing.T) {
	w := start(t)
	if g := raw(t, w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); g.status < 400 {
		t.Errorf("%d", g.status)
	}
}

func TestPagesOfOtherOriginsAreTurnedAway(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	for _, headers := range [][]string{
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Origin", "http://rebound.example:7981", "Host", "rebound.example:7981"},
	} {
		req, _ := http.NewRequest("POST", w.url("/v1/messages"), bytes.NewReader(document(t, caller.request("echo", "1"))))
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		if host := req.Header.Get("Host"); host != "" {
			req.Host = host
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp).problem(t, envelope.Forbidden, 403)
	}
	for _, headers := range [][]string{{"Origin", "http://" + w.addr, "Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
		w.post("/v1/messages", caller.request("echo", "1"), headers...).envelope(t)
	}
	if g := w.send("GET", "/v1/nodes", nil, "Sec-Fetch-Site", "cross-site"); g.status != 200 {
		t.Errorf("a link to the node: %d", g.status)
	}
}

// What is too much at once is told so; what was told yes arrives: sent = delivered + reported failed (case 26).
func TestBodyBudget(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.MaxBodies = 3000 })
	hold := make(chan struct{})
	asked := make(chan struct{}, 10)
	w.agent("slow", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		asked <- struct{}{}
		<-hold
		return send("1")
	}, "work")
	caller := w.caller("caller")
	payload := `"` + strings.Repeat("x", 1500) + `"`
	first := make(chan got, 1)
	go func() { first <- w.post("/v1/messages", caller.request("work", payload)) }()
	wait(t, asked, "the first call")
	p := w.post("/v1/messages", caller.request("work", payload)).problem(t, envelope.Overloaded, 429)
	if p.RetryAfter != 1000 {
		t.Errorf("retry after %d ms", p.RetryAfter)
	}
	close(hold)
	wait(t, first, "the first answer").envelope(t)
	w.post("/v1/messages", caller.request("work", payload)).envelope(t)
}

func TestErrorsAreOneFormat(t *testing.T) {
	e := envelope.Errorf(envelope.SchemaError, envelope.StepCheck, "does not fit").WithHint("read the schema")
	e.Places = []envelope.Place{{Pointer: "/sku", Text: "missing"}}
	var p problem
	unmarshal(t, problemOf(e, 422).encode(), &p)
	if len(p.Places) != 1 || p.Places[0].Pointer != "/sku" || p.Title == "" || p.Hint != "read the schema" {
		t.Errorf("%+v", p)
	}
	bad := problemOf(envelope.Errorf(envelope.Internal, envelope.StepCall, "\xff"), 500).encode()
	if err := json.Unmarshal(bad, &p); err != nil {
		t.Errorf("%v", err)
	}
}

// Without a permission table only callers on this machine may call, and no header makes a caller one of them.
func TestCallersFromElsewhere(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	for from, want := range map[string]int{"127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200, "192.0.2.1:1": 403, "[2001:db8::1]:1": 403, "pipe": 403} {
		r := httptest.NewRequest("POST", "http://localhost/v1/messages", bytes.NewReader(document(t, caller.request("echo", "1"))))
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		r.Header.Set("X-Real-IP", "127.0.0.1")
		out := httptest.NewRecorder()
		w.server.handler.ServeHTTP(out, r)
		if out.Code != want {
			t.Errorf("%s: %d %s", from, out.Code, out.Body)
		}
	}
}
