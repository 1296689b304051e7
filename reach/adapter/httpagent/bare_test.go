package httpagent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestKeylessCall(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, " {\"got\":%s}\r\n", b)
	})
	a := newTestAgent(t, s.URL, keyless)
	m := ask(t, `{"sku":"A"}`, nil)
	parts, err := call(t, a, m)
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	e := parts[0]
	if string(e.Payload) != `{"got":{"sku":"A"}}` {
		t.Fatalf("payload %q", e.Payload)
	}
	h := e.Header
	if h.MsgType != envelope.Response || h.Status != envelope.StatusOK || h.VouchedBy != nodeID || h.SourceAgent != agentID || h.TargetAgent != callerID ||
		h.InReplyTo != m.Header.MsgID || h.TraceID != "trace-1" || h.TargetCapability != m.Header.TargetCapability || h.MsgID == m.Header.MsgID {
		t.Fatalf("%s", e.RawHeader)
	}
	if err := e.Verify(agentKey.Public()); err != nil {
		t.Fatal(err)
	}
	doc, err := e.AppendDocument(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := envelope.Decode(doc, 1<<20)
	if err == nil {
		err = back.Verify(agentKey.Public())
	}
	if err != nil {
		t.Fatalf("the vouched response does not survive a JSON document: %v", err)
	}
}

// Case 25: nothing, and every value that looks like nothing, is a success.
func TestKeylessEmptyAnswers(t *testing.T) {
	for _, body := range []string{"", "{}", "null", `""`, " \n"} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) })
		parts, err := call(t, newTestAgent(t, s.URL, keyless), ask(t, "{}", nil))
		if err != nil || len(parts) != 1 || parts[0].Header.Status != envelope.StatusOK || string(parts[0].Payload) != strings.TrimSpace(body) {
			t.Fatalf("body %q: %v, %v", body, parts, err)
		}
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if parts, err := call(t, newTestAgent(t, s.URL, keyless), ask(t, "", nil)); err != nil || len(parts) != 1 || len(parts[0].Payload) != 0 {
		t.Fatal(parts, err)
	}
}

// Case 31: what the agent is sent is this and nothing else, whatever the caller said; the body's length is stated and true.
func TestKeylessRequestOnTheWire(t *testing.T) {
	heads := make(chan []string, 1)
	url := listen(t, func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		var lines []string
		length := 0
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Error(err)
				return
			}
			if line = strings.TrimSpace(line); line == "" {
				break
			}
			fmt.Sscanf(line, "Content-Length: %d", &length)
			lines = append(lines, line)
		}
		body := make([]byte, length)
		io.ReadFull(in, body)
		heads <- append(lines, string(body))
		// An answer full of what must not cross.
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Secret\r\nKeep-Alive: timeout=5\r\nX-Secret: 1\r\nMcp-Session-Id: s\r\nSet-Cookie: a=b\r\n"+
			"Transfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n2\r\n{}\r\n0\r\nX-Late: 1\r\n\r\n")
	})
	a := newTestAgent(t, url, keyless)
	m := ask(t, `{"a":"\r\nX-Evil: 1"}`, func(h *envelope.Header) { h.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" })
	parts, err := call(t, a, m)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(parts[0].RawHeader) + string(parts[0].Payload); strings.Contains(s, "Secret") || strings.Contains(s, "ession") || strings.Contains(s, "Late") {
		t.Fatalf("a header of the agent crossed: %s", s)
	}
	got := <-heads
	slices.Sort(got[1:])
	for i, line := range got {
		if strings.HasPrefix(line, "Agent-Reach-Timeout-Ms: ") {
			got[i] = "Agent-Reach-Timeout-Ms: n"
		}
	}
	want := []string{
		"POST /rpc HTTP/1.1",
		"Agent-Reach-Caller: orders",
		"Agent-Reach-Capability: stock.query",
		"Agent-Reach-Msg-Id: " + m.Header.MsgID,
		"Agent-Reach-Timeout-Ms: n",
		"Agent-Reach-Trace-Id: trace-1",
		"Content-Length: 21",
		"Content-Type: application/json",
		"Host: " + strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/rpc"),
		"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"User-Agent: agent-reach/3.0",
		`{"a":"\r\nX-Evil: 1"}`,
	}
	if !slices.Equal(got, want) {
		t.Fatalf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestKeylessErrors(t *testing.T) {
	followed := false
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/500":
			http.Error(w, "no \x1b[31mstock\u202e "+strings.Repeat("x", 400), http.StatusInternalServerError)
		case "/html":
			io.WriteString(w, "<html>")
		case "/twice":
			io.WriteString(w, `{"a":1,"a":2}`)
		case "/302":
			http.Redirect(w, r, "/followed", http.StatusFound)
		case "/followed":
			followed = true
		}
	})
	for path, says := range map[string]string{
		"/500": "HTTP 500 from " + s.URL + "/500: no  [31mstock", "/html": "not JSON: <html>", "/twice": "not JSON", "/302": "redirects to /followed",
	} {
		parts, err := call(t, newTestAgent(t, s.URL+path, keyless), ask(t, "{}", nil))
		if err != nil || len(parts) != 1 {
			t.Fatal(path, parts, err)
		}
		h := parts[0].Header
		said := string(h.Error)
		if h.Status != envelope.StatusError || !strings.Contains(said, `"code":"agent_error"`) || !strings.Contains(said, says) || len(said) > 600 {
			t.Errorf("%s: %s", path, said)
		}
		if strings.ContainsAny(said, "\x1b\u202e") || strings.Contains(said, `\u001b`) {
			t.Errorf("%s: what acts on a terminal came through: %q", path, said)
		}
		if err := parts[0].Verify(agentKey.Public()); err != nil {
			t.Error(err)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

func TestKeylessBusy(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/when" {
			w.Header().Set("Retry-After", "7")
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, err := call(t, newTestAgent(t, s.URL+"/when", keyless), ask(t, "{}", nil))
	wantError(t, err, envelope.Overloaded, "HTTP 503")
	if e := envelope.AsError(err); e.RetryAfter != 7*time.Second || !e.Code.NotRun() {
		t.Fatalf("%+v", e)
	}
	parts, err := call(t, newTestAgent(t, s.URL, keyless), ask(t, "{}", nil))
	if err != nil || parts[0].Header.Status != envelope.StatusError {
		t.Fatal("503 that does not say when: it may have run", parts, err)
	}
}

func TestKeylessLimits(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			io.WriteString(w, `"`+strings.Repeat("x", 98)+`"`)
		case "/length", "/chunks":
			if r.URL.Path == "/chunks" {
				w.(http.Flusher).Flush()
			}
			io.WriteString(w, `"`+strings.Repeat("x", 99)+`"`)
		case "/head":
			w.Header().Set("X", strings.Repeat("x", 2*maxHead))
		}
	})
	small := func(c *Config) { keyless(c); c.MaxPayload = 100 }
	if _, err := call(t, newTestAgent(t, s.URL+"/exact", small), ask(t, "{}", nil)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/length", "/chunks"} {
		_, err := call(t, newTestAgent(t, s.URL+path, small), ask(t, "{}", nil))
		wantError(t, err, envelope.TooLarge, "100")
	}
	_, err := call(t, newTestAgent(t, s.URL+"/head", small), ask(t, "{}", nil))
	wantError(t, err, envelope.Timeout, "may have run")
	_, err = call(t, newTestAgent(t, s.URL, small), ask(t, "no json", nil))
	wantError(t, err, envelope.Malformed, "not JSON")
}

func TestKeylessProbe(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("probed by %s", r.Method)
		}
		if r.URL.Path != "/ready" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	probe := func(change func(*Config)) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return newTestAgent(t, s.URL, change).Probe(ctx)
	}
	if err := probe(keyless); err != nil {
		t.Fatalf("any answer will do: %v", err)
	}
	if err := probe(func(c *Config) { keyless(c); c.ProbeURL = s.URL + "/ready" }); err != nil {
		t.Fatal(err)
	}
	wantError(t, probe(func(c *Config) { keyless(c); c.ProbeURL = s.URL + "/other" }), envelope.AgentFailed, "HTTP 418")
	s.Close()
	wantError(t, probe(keyless), envelope.Unreachable, "refused")
}
