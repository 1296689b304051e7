package scenario

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// TestEveryLineOfACallHasItsTrace: at level debug each step is a line, and the trace_id leads through them; the access line is complete, and the
// series count.
func TestEveryLineOfACallHasItsTrace(t *testing.T) {
	n := startNode(t, settings{"logging.level": "debug"})
	serveEcho(t, n, "echo-agent", "echo.say")
	caller := newAgent(t, n, "tracer")
	must(t, caller.Call(short(t), "echo.say", map[string]int{"n": 1}, nil, sdk.Trace("trace-7")))
	eventually(t, "an access line", func() bool { return len(traced(t, n.printed(false), "trace-7")) == 1 })
	steps := map[any]bool{}
	for _, line := range traced(t, n.printed(true), "trace-7") {
		steps[line["step"]] = true
	}
	for _, step := range []string{"seal", "resolve", "check", "choose", "forward"} {
		if !steps[step] {
			t.Errorf("no line of step %s has the trace_id; those that have: %v", step, steps)
		}
	}
	line := traced(t, n.printed(false), "trace-7")[0]
	for _, key := range []string{"time", "msg_id", "trace_id", "caller", "capability", "agent", "node", "reason", "duration_ms", "outcome"} {
		if line[key] == nil || line[key] == "" {
			t.Errorf("the access line has no %s: %v", key, line)
		}
	}
	if line["caller"] != "tracer" || line["agent"] != "echo-agent" || line["outcome"] != "ok" {
		t.Errorf("%v", line)
	}
	err := caller.Call(short(t), "nobody.has", nil, nil)
	if !errors.Is(err, envelope.NoRoute) {
		t.Fatal(err)
	}
	series := n.metrics(t)
	for name, least := range map[string]float64{
		`agent_reach_calls_total{code="ok",step="call"}`: 1, `agent_reach_calls_total{code="no_route",step="resolve"}`: 1,
		"agent_reach_call_duration_seconds_count": 2, "agent_reach_routing_overhead_seconds_count": 1, "agent_reach_available_agents": 1,
		`agent_reach_messages_total{msg_type="request"}`: 2, "agent_reach_seen_ids": 1,
	} {
		if series[name] < least {
			t.Errorf("%s is %v, want %v or more", name, series[name], least)
		}
	}
	if _, there := series["agent_reach_queue_depth"]; !there {
		t.Error("no agent_reach_queue_depth")
	}
}

// traced are the JSON lines with this trace_id.
func traced(t *testing.T, lines []string, id string) (out []map[string]any) {
	t.Helper()
	for _, line := range jsonLines(t, lines) {
		if line["trace_id"] == id {
			out = append(out, line)
		}
	}
	return out
}

func jsonLines(t *testing.T, lines []string) (out []map[string]any) {
	t.Helper()
	for _, text := range lines {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("a line that is not JSON: %q", text)
		}
		out = append(out, line)
	}
	return out
}

// TestPermissionsAreReadAgain: on change and on SIGHUP; a bad file leaves the old table in force and says where it is wrong.
func TestPermissionsAreReadAgain(t *testing.T) {
	n := newNode(t, settings{"auth.permissions_file": "rules.yaml"})
	rules := func(text string) { must(t, os.WriteFile(n.file("rules.yaml"), []byte("rules:\n"+text), 0o600)) }
	const open, closed = "  - allow: {caller: \"*\"}\n", "  - deny: {caller: \"asker\"}\n  - allow: {caller: \"*\"}\n"
	rules(open)
	n.start(t)
	serveEcho(t, n, "echo-agent", "echo.say")
	asker := newAgent(t, n, "asker")
	allowed := func() bool { return asker.Call(short(t), "echo.say", 1, nil) == nil }
	if !allowed() {
		t.Fatal("an allowed call is refused")
	}
	rules(closed)
	eventually(t, "the new table", func() bool { return errors.Is(asker.Call(short(t), "echo.say", 1, nil), envelope.Forbidden) })
	rules("  - alow: {caller: \"*\"}\n")
	if line := n.says(t, "refused"); !strings.Contains(line, "rules.yaml:2") {
		t.Errorf("the log does not name the line: %s", line)
	}
	if allowed() {
		t.Error("a bad file put the old table out of force")
	}
	rules(open)
	n.signal(t, syscall.SIGHUP)
	eventually(t, "the table on SIGHUP", allowed)
}

// TestEveryOutcomeIsLogged: calls that fail have an access line with their code, and no line that tells of a message lacks its trace_id.
func TestEveryOutcomeIsLogged(t *testing.T) {
	n := startNode(t, settings{"logging.level": "debug"})
	serveEcho(t, n, "echo-agent", "echo.say")
	agent := goAgent(t, n, "mortal", "mortal.work=hold")
	v, caller := registered(t, n, "voice"), newAgent(t, n, "caller")
	answer := make(chan error, 1)
	go func() { answer <- caller.Call(short(t), "mortal.work", nil, nil, sdk.Trace("trace-timeout")) }()
	agent.says(t, "running ")
	agent.kill()
	within(t, answer, "the end of the call")
	again := v.document(v.header(envelope.Request, "echo.say"), `1`)
	v.post("/v1/messages", again)
	v.post("/v1/messages", again)
	v.ask("no.such", `1`)
	count := map[any]int{}
	eventually(t, "an access line for each call", func() bool {
		clear(count)
		for _, line := range jsonLines(t, n.printed(false)) {
			count[line["outcome"]]++
		}
		return count["timeout"] == 1 && count["ok"] == 1 && count["duplicate"] == 1 && count["no_route"] == 1
	})
	for _, line := range append(jsonLines(t, n.printed(true)), jsonLines(t, n.printed(false))...) {
		if line["msg_id"] != nil && (line["trace_id"] == nil || line["trace_id"] == "") {
			t.Errorf("a line without its trace_id: %v", line)
		}
	}
}

// TestSIGTERMDrains: what runs ends with its answer, for callers over links and over HTTP and agents of both SDKs; nothing new begins, and the program
// exits with 0.
func TestSIGTERMDrains(t *testing.T) {
	n := startNode(t, nil)
	finish := map[string]*process{"go-agent": goAgent(t, n, "go-agent", "go-agent.work=hold")}
	if havePython() {
		finish["py-agent"] = pythonAgent(t, n, "py-agent", "py-agent.work=hold")
	}
	caller, v := newAgent(t, n, "caller"), registered(t, n, "voice")
	answers := make(chan error, 2*len(finish))
	for agent := range finish {
		go func() { answers <- caller.Call(short(t), agent+".work", map[string]int{}, nil) }()
		go func() {
			r, err := v.tryPost(t.Context(), "/v1/messages", v.document(v.header(envelope.Request, agent+".work"), `{}`))
			if err == nil && r.status != http.StatusOK {
				err = fmt.Errorf("HTTP %d %s", r.status, r.body)
			}
			answers <- err
		}()
		eventually(t, "both calls run", func() bool { return n.running(t, agent) == 2 })
	}
	n.signal(t, syscall.SIGTERM)
	eventually(t, "the node says that it leaves", func() bool { return !n.ready() })
	stdout, _, exit := n.cli(t, "call", "go-agent.work", "1", "--json")
	if exit == 0 || !strings.Contains(stdout, `"unreachable"`) {
		t.Errorf("a node that stops takes a new call: exit %d, %s", exit, stdout)
	}
	for _, p := range finish {
		p.tell(t, "release")
	}
	for range 2 * len(finish) {
		if err := within(t, answers, "the answers"); err != nil {
			t.Errorf("a running call: %v", err)
		}
	}
	if exit := n.exit(t); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// TestSIGTERMDoesNotWaitForEver: a call that does not end is cut after drain_timeout_sec, and its caller is told.
func TestSIGTERMDoesNotWaitForEver(t *testing.T) {
	n := startNode(t, settings{"node.drain_timeout_sec": "1"})
	agent := goAgent(t, n, "go-agent", "go-agent.work=hold")
	caller := newAgent(t, n, "caller")
	answer := make(chan error, 1)
	go func() { answer <- caller.Call(short(t), "go-agent.work", nil, nil) }()
	agent.says(t, "running ")
	n.signal(t, syscall.SIGTERM)
	if exit := n.exit(t); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	if err := within(t, answer, "the caller's error"); !errors.Is(err, envelope.Timeout) {
		t.Errorf("the call that was cut: %v", err)
	}
}

// TestPythonAgentDrains: an agent of the Python SDK that gets SIGTERM leaves its node, finishes what runs, over a link and over HTTP, and exits with 0.
func TestPythonAgentDrains(t *testing.T) {
	n := startNode(t, nil)
	caller := newAgent(t, n, "caller")
	for id, args := range map[string][]string{
		"py-link": {"py-link.work=hold"}, "py-http": {"py-http.work=hold", "--http", strconv.Itoa(freePort(t))},
	} {
		p := pythonAgent(t, n, id, args...)
		answer := make(chan error, 1)
		go func() { answer <- caller.Call(short(t), id+".work", map[string]int{}, nil) }()
		p.says(t, "running ")
		p.signal(t, syscall.SIGTERM)
		n.awaitState(t, id, "draining")
		if err := caller.Call(short(t), id+".work", map[string]int{}, nil); !errors.Is(err, envelope.NoRoute) {
			t.Errorf("%s, a new call: %v", id, err)
		}
		p.tell(t, "release")
		if err := within(t, answer, "the answer"); err != nil {
			t.Errorf("%s, the running call: %v", id, err)
		}
		if exit := p.exit(t); exit != 0 {
			t.Errorf("%s: exit %d", id, exit)
		}
		n.awaitState(t, id, "")
	}
}
