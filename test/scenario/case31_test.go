package scenario

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func asNetError(err error, into *net.Error) bool { return errors.As(err, into) }

// hostile are headers that no node may pass on, in neither direction.
var hostile = []string{
	"Connection: X-Secret, keep-alive", "X-Secret: by the connection", "Keep-Alive: timeout=9", "Proxy-Connection: keep-alive",
	"Proxy-Authorization: Basic eDp5", "Proxy-Authenticate: Basic", "TE: trailers", "Trailer: X-Late", "Upgrade: h2c",
	"Authorization: Bearer theirs", "Cookie: session=1", "Set-Cookie: session=2", "Mcp-Session-Id: 7", "X-Forwarded-For: 10.0.0.1",
	"Agent-Reach-Caller: admin", "Agent-Reach-Capability: payroll.pay", "Agent-Reach-Msg-Id: forged", "Agent-Reach-Trace-Id: forged",
	"Agent-Reach-Node: forged", "Agent-Reach-Vouched-By: forged",
}

// TestCase31HeaderSmugglingToTheAgent: what a caller writes into HTTP headers never reaches an agent, and the body's length is true.
func TestCase31HeaderSmugglingToTheAgent(t *testing.T) {
	n := startNode(t, nil)
	agent := startRawServer(t, func(rawRequest) (string, bool) { return jsonAnswer(`{"ok":true}`), false })
	attach(t, n, "plain", "plain.ask", agent.url+"/rpc")
	v := registered(t, n, "honest")
	h := v.header(envelope.Request, "plain.ask")
	h.TraceID = "trace-31"
	responses, _ := n.exchange(t, rawPost("/v1/messages", v.document(h, `{"a": 1}`), hostile...))
	if len(responses) != 1 || responses[0].status != http.StatusOK {
		t.Fatalf("got %+v", responses)
	}
	posts := agent.posts()
	if len(posts) != 1 {
		t.Fatalf("the agent got %d requests", len(posts))
	}
	got := posts[0]
	want := []string{"Host", "User-Agent", "Content-Length", "Content-Type", "Agent-Reach-Timeout-Ms", "Agent-Reach-Msg-Id",
		"Agent-Reach-Trace-Id", "Agent-Reach-Caller", "Agent-Reach-Capability", "Accept-Encoding"}
	for _, name := range got.names() {
		if !slices.Contains(want, name) {
			t.Errorf("the agent got the header %s: %s", name, got.value(name))
		}
	}
	for name, value := range map[string]string{
		"Content-Length": "8", "Agent-Reach-Msg-Id": h.MsgID, "Agent-Reach-Trace-Id": "trace-31", "Agent-Reach-Caller": "honest",
		"Agent-Reach-Capability": "plain.ask", "Content-Type": "application/json",
	} {
		if got.value(name) != value {
			t.Errorf("%s is %q, not %q", name, got.value(name), value)
		}
	}
	if got.body != `{"a": 1}` || got.line != "POST /rpc HTTP/1.1" {
		t.Errorf("the agent got %q with the body %q", got.line, got.body)
	}
}

// TestCase31HeaderSmugglingToTheKeyedAgent is the same for an agent with a key, whose deliveries are sealed documents.
func TestCase31HeaderSmugglingToTheKeyedAgent(t *testing.T) {
	n := startNode(t, nil)
	seen := make(chan http.Header, 1)
	a := newHTTPAgent(t, n, "keyed", func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case seen <- r.Header:
			default:
			}
			inner.ServeHTTP(w, r)
		})
	})
	a.Handle(offer("keyed.ask"), echo)
	serve(t, a)
	<-seen // a probe
	v := registered(t, n, "honest")
	responses, _ := n.exchange(t, rawPost("/v1/messages", v.document(v.header(envelope.Request, "keyed.ask"), `{"a":1}`), hostile...))
	if len(responses) != 1 || responses[0].status != http.StatusOK {
		t.Fatalf("got %+v", responses)
	}
	want := []string{"Accept", "Accept-Encoding", "Agent-Reach-Timeout-Ms", "Content-Length", "Content-Type", "User-Agent"}
	for name, values := range within(t, seen, "the delivery") {
		if !slices.Contains(want, name) {
			t.Errorf("the agent got the header %s: %q", name, values)
		}
	}
}

// TestCase31HeaderSmugglingToTheCaller: what an agent writes into HTTP headers never reaches a caller.
func TestCase31HeaderSmugglingToTheCaller(t *testing.T) {
	n := startNode(t, nil)
	agent := startRawServer(t, func(rawRequest) (string, bool) {
		body := `{"ok":true}`
		return fmt.Sprintf("HTTP/1.1 200 OK\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			strings.Join(hostile, "\r\n"), len(body), body), false
	})
	attach(t, n, "plain", "plain.ask", agent.url)
	v := registered(t, n, "honest")
	h := v.header(envelope.Request, "plain.ask")
	responses, _ := n.exchange(t, rawPost("/v1/messages", v.document(h, `{}`)))
	if len(responses) != 1 {
		t.Fatalf("got %+v", responses)
	}
	got := responses[0]
	want := []string{"Agent-Reach-Trace-Id", "Content-Length", "Content-Type", "Date", "X-Content-Type-Options"}
	for name, values := range got.header {
		if !slices.Contains(want, name) {
			t.Errorf("the caller got the header %s: %q", name, values)
		}
	}
	if got.header.Get("Agent-Reach-Trace-Id") != h.MsgID || got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
		t.Errorf("headers %v for a body of %d bytes", got.header, len(got.body))
	}
	if string(got.answer(t).Payload) != `{"ok":true}` {
		t.Errorf("answer %s", got.body)
	}
}

// TestCase31StaleLengthsOfAnAgent: an answer whose length lies is cut to it or refused, and what is left over is never the next caller's answer.
func TestCase31StaleLengthsOfAnAgent(t *testing.T) {
	n := startNode(t, nil)
	agent := startRawServer(t, func(rawRequest) (string, bool) { return jsonAnswer(`"good"`), false })
	attach(t, n, "plain", "plain.ask", agent.url)
	v := registered(t, n, "honest")
	smuggled := jsonAnswer(`"smuggled"`)
	for name, tt := range map[string]struct {
		response string
		hangUp   bool
		want     string // payload, or code
	}{
		"length too short":       {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\"x\"}}}}" + smuggled, false, `"x"`},
		"length too short, cut":  {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\"cut off\"", false, "agent_error"},
		"length too long":        {"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n\"x\"", true, "timeout"},
		"a second answer":        {jsonAnswer(`"first"`) + smuggled, false, `"first"`},
		"chunked, and a length":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\n\"abc\"\r\n0\r\n\r\n" + smuggled, false, `"abc"`},
		"two lengths":            {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\n\"x\"" + smuggled, false, "timeout"},
		"strange encoding":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n3\r\n\"x\"\r\n0\r\n\r\n" + smuggled, false, "timeout"},
		"chunk that breaks off":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n\"x\"", true, "timeout"},
		"informational in front": {"HTTP/1.1 103 Early Hints\r\nX-Secret: 1\r\n\r\n" + jsonAnswer(`"x"`), false, `"x"`},
		"trailers":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n3\r\n\"x\"\r\n0\r\nX-Late: 1\r\n\r\n", false, `"x"`},
	} {
		agent.answerWith(func(rawRequest) (string, bool) { return tt.response, tt.hangUp })
		if got := outcomeOf(t, v.ask("plain.ask", `{}`)); got != tt.want {
			t.Errorf("%s: %s, not %s", name, got, tt.want)
		}
		agent.answerWith(func(rawRequest) (string, bool) { return jsonAnswer(`"good"`), false })
		if got := outcomeOf(t, v.ask("plain.ask", `{}`)); got != `"good"` {
			t.Errorf("after %s the next caller got %s", name, got)
		}
	}
}

// outcomeOf is an answer's payload, or the code of an error: of the agent's own or the node's.
func outcomeOf(t testing.TB, r reply) string {
	t.Helper()
	if r.status != http.StatusOK {
		return string(r.problem(t).Code)
	}
	if e := r.answer(t); e.Header.Status != envelope.StatusError {
		return string(e.Payload)
	}
	return "agent_error"
}

// TestCase31RequestSmuggling: two ways to tell where a request ends are never both believed.
func TestCase31RequestSmuggling(t *testing.T) {
	n := startNode(t, nil)
	agent := startRawServer(t, func(rawRequest) (string, bool) { return jsonAnswer(`{}`), false })
	attach(t, n, "plain", "plain.ask", agent.url)
	v := registered(t, n, "honest")
	inner := rawPost("/v1/messages", v.document(v.header(envelope.Request, "plain.ask"), `{"smuggled":1}`))
	chunked := "0\r\n\r\n" + inner
	for name, headers := range map[string][]string{
		"length and chunked":           {fmt.Sprintf("Content-Length: %d", len(chunked)), "Transfer-Encoding: chunked"},
		"chunked and length":           {"Transfer-Encoding: chunked", fmt.Sprintf("Content-Length: %d", len(chunked))},
		"two lengths":                  {"Content-Length: 5", fmt.Sprintf("Content-Length: %d", len(chunked))},
		"a list of lengths":            {fmt.Sprintf("Content-Length: 5, %d", len(chunked))},
		"a signed length":              {"Content-Length: +5"},
		"two encodings":                {"Transfer-Encoding: chunked", "Transfer-Encoding: identity"},
		"a strange encoding":           {"Transfer-Encoding: xchunked"},
		"white space before the colon": {"Transfer-Encoding : chunked", "Content-Length: 5"},
		"a folded header":              {"Transfer-Encoding:\r\n chunked", "Content-Length: 5"},
	} {
		responses, closed := n.exchange(t, rawPost("/v1/messages", []byte(chunked), headers...))
		if len(responses) != 1 || responses[0].status < 400 || !closed {
			t.Errorf("%s: %d responses (%s), connection closed: %v", name, len(responses), firstOf(responses), closed)
		}
	}
	if posts := agent.posts(); len(posts) != 0 {
		t.Errorf("%d smuggled requests reached the agent", len(posts))
	}
}

func firstOf(responses []reply) string {
	if len(responses) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d %s", responses[0].status, responses[0].body)
}
