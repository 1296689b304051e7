package scenario

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/sdk"
)

// answerView is a line of agent-reach call --json.
type answerView struct {
	Agent     string         `json:"agent"`
	Payload   jsontext.Value `json:"payload"`
	VouchedBy string         `json:"vouched_by"`
}

// descriptorFile writes a file for agent-reach attach.
func descriptorFile(t testing.TB, n *node, id, capability, url string) string {
	t.Helper()
	file := n.file(id + ".yaml")
	text := fmt.Sprintf("agent_id: %s\ncapabilities:\n  - {name: %s, version: 1.0.0}\nendpoint: {type: http, url: %q}\n", id, capability, url)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// attach has the operator attach a plain web server, and waits until it is available.
func attach(t testing.TB, n *node, id, capability, url string) (file string) {
	t.Helper()
	file = descriptorFile(t, n, id, capability, url)
	if _, stderr, exit := n.cli(t, "attach", file, "--config", "config.yaml"); exit != 0 {
		t.Fatalf("attach exited with %d: %s", exit, stderr)
	}
	n.awaitState(t, id, "available")
	return file
}

// callView runs agent-reach call --json, which must succeed.
func (n *node) callView(t testing.TB, args ...string) (v answerView) {
	t.Helper()
	stdout, stderr, exit := n.cli(t, append([]string{"call", "--json"}, args...)...)
	if exit != 0 {
		t.Fatalf("call %v exited with %d: %s%s", args, exit, stdout, stderr)
	}
	must(t, json.Unmarshal([]byte(stdout), &v))
	return v
}

// wordServer is article/plain_agent.py, or its like in Go where there is no Python. It answers POST only.
func wordServer(t *testing.T, n *node) (url string) {
	t.Helper()
	if havePython() {
		port := strconv.Itoa(freePort(t))
		runPython(t, n, nil, "article/plain_agent.py", port)
		return "http://127.0.0.1:" + port
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Text string `json:"text"`
		}
		if r.Method != http.MethodPost || json.UnmarshalRead(r.Body, &asked) != nil {
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		fmt.Fprintf(w, `{"words": %d}`, len(strings.Fields(asked.Text)))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestPlainAgentWithoutSDK(t *testing.T) {
	n := startNode(t, nil)
	file := attach(t, n, "words-01", "text.count_words", wordServer(t, n))
	ask := func(when string) {
		t.Helper()
		v := n.callView(t, "text.count_words", `{"text": "three short words"}`)
		if string(v.Payload) != `{"words":3}` && string(v.Payload) != `{"words": 3}` || v.Agent != "words-01" || v.VouchedBy != n.id(t) {
			t.Errorf("%s: %+v", when, v)
		}
	}
	ask("attached")

	n.kill()
	n.start(t)
	n.awaitState(t, "words-01", "available")
	ask("after the node was killed and started again")

	if _, stderr, exit := n.cli(t, "attach", file, "--remove", "--config", "config.yaml"); exit != 0 {
		t.Fatalf("attach --remove exited with %d: %s", exit, stderr)
	}
	n.awaitState(t, "words-01", "")
	stdout, _, exit := n.cli(t, "call", "--json", "text.count_words", "{}")
	if exit != 4 || !strings.Contains(stdout, `"no_route"`) {
		t.Errorf("a call to a removed agent exited with %d: %s", exit, stdout)
	}
	n.kill()
	n.start(t)
	if a := n.agents(t); len(a) != 0 {
		t.Errorf("removed, and back with the next start: %v", a)
	}
}

// TestRedirectsAreNotFollowed: neither a keyless agent nor one with a key can make a node post a payload somewhere else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	n := startNode(t, nil)
	var elsewhere atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(target.Close)
	var status atomic.Int32
	redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, int(status.Load())) }
	status.Store(http.StatusTemporaryRedirect)
	plain := httptest.NewServer(http.HandlerFunc(redirect))
	t.Cleanup(plain.Close)
	attach(t, n, "moved-plain", "plain.ask", plain.URL)
	var moved atomic.Bool
	keyed := newHTTPAgent(t, n, "moved-keyed", func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if moved.Load() {
				redirect(w, r)
				return
			}
			inner.ServeHTTP(w, r)
		})
	})
	keyed.Handle(offer("keyed.ask"), echo)
	serve(t, keyed)
	moved.Store(true)

	caller := newAgent(t, n, "caller")
	for _, code := range []int{301, 302, 303, 307, 308} {
		status.Store(int32(code))
		for _, capability := range []string{"plain.ask", "keyed.ask"} {
			err := caller.Call(short(t), capability, map[string]int{"secret": 1}, nil, sdk.ToAgent(strings.Replace("moved-"+capability, ".ask", "", 1)))
			if err == nil || !strings.Contains(err.Error(), "redirect") || !strings.Contains(err.Error(), strconv.Itoa(code)) {
				t.Errorf("%s, HTTP %d: %v", capability, code, err)
			}
		}
	}
	if got := elsewhere.Load(); got != 0 {
		t.Errorf("%d requests were sent to where the redirects point", got)
	}
}
