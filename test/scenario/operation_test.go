package scenario

import (
	"context"
	"errors"
	"os"
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
	for _, text := range lines {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("a line that is not JSON: %q", text)
		}
		if line["trace_id"] == id {
			out = append(out, line)
		}
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

// TestSIGTERMDrains: what runs ends with its answer, nothing new begins, and the program exits with 0.
func TestSIGTERMDrains(t *testing.T) {
	n := startNode(t, nil)
	a := newAgent(t, n, "slow-agent")
	running, finish := make(chan struct{}), make(chan struct{})
	a.Handle(offer("work.do"), func(context.Context, *sdk.Request) (any, error) {
		close(running)
		<-finish
		return "done", nil
	})
	serve(t, a)
	caller := newAgent(t, n, "caller")
	answer := make(chan error, 1)
	go func() { answer <- caller.Call(short(t), "work.do", nil, nil) }()
	within(t, running, "the call")
	n.signal(t, syscall.SIGTERM)
	n.says(t, "node is stopping")
	if _, _, exit := n.cli(t, "call", "work.do", "1"); exit == 0 {
		t.Error("a node that stops takes a new call")
	}
	close(finish)
	if err := within(t, answer, "the answer"); err != nil {
		t.Errorf("the running call: %v", err)
	}
	if exit := n.exit(t); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// TestDemo tells its story and leaves nothing running.
func TestDemo(t *testing.T) {
	p := start(t, command{name: "demo", program: program, args: []string{"demo"}})
	if exit := p.exit(t); exit != 0 {
		t.Fatalf("exit %d: %s", exit, p.text())
	}
	lines := p.printed(false)
	if last := lines[len(lines)-1]; last != "demo: ok" {
		t.Errorf("its last line is %q", last)
	}
	for _, line := range lines {
		_, rest, found := strings.Cut(line, "(pid ")
		if !found || strings.Contains(line, "kill") {
			continue
		}
		pid, _, _ := strings.Cut(rest, ")")
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("still running: %s", line)
		}
	}
}
