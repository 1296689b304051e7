package metrics

import (
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

func scrape(t testing.TB, m *Metrics) string {
	out := httptest.NewRecorder()
	m.Handler().ServeHTTP(out, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(out.Result().Body)
	if err != nil || out.Code != 200 {
		t.Fatalf("%d %v %s", out.Code, err, b)
	}
	return string(b)
}

// has reports the lines that are not there as they stand.
func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "agent_reach") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

func arrival(kind envelope.MsgType) reach.Event {
	return reach.Event{Step: envelope.StepDecode, Message: &reach.Message{Envelope: &envelope.Envelope{Header: envelope.Header{MsgType: kind}}}}
}

func TestEvents(t *testing.T) {
	m := New("1.2.3", Sources{})
	for _, e := range []reach.Event{
		arrival(envelope.Request), arrival(envelope.Request), arrival(envelope.Heartbeat), arrival("gossip"),
		{Step: envelope.StepDecode, Err: envelope.Errorf(envelope.Malformed, envelope.StepDecode, "x")},
		{Step: envelope.StepCall, Duration: 8 * time.Millisecond, Agents: 7 * time.Millisecond},
		{Step: envelope.StepCall, Duration: 20 * time.Millisecond, Agents: 30 * time.Millisecond, Retries: 2},
		{Step: envelope.StepCall, Duration: time.Minute, Agents: time.Minute, Retries: 1, Err: envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "x")},
		{Step: envelope.StepCall, Err: errors.New("no code")},
		{Step: envelope.StepForward, Err: envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "not the whole way")},
	} {
		m.Observe(e)
	}
	has(t, scrape(t, m),
		`agent_reach_messages_total{msg_type="request"} 2`,
		`agent_reach_messages_total{msg_type="heartbeat"} 1`,
		`agent_reach_messages_total{msg_type="cancel"} 0`,
		`agent_reach_messages_total{msg_type="other"} 1`,
		`agent_reach_calls_total{code="malformed",step="decode"} 1`,
		`agent_reach_calls_total{code="ok",step="call"} 2`,
		`agent_reach_calls_total{code="timeout",step="deliver"} 1`,
		`agent_reach_calls_total{code="internal",step="call"} 1`,
		`agent_reach_call_duration_seconds_count 4`,
		`agent_reach_call_duration_seconds_bucket{le="0.01"} 2`,
		`agent_reach_call_duration_seconds_bucket{le="60"} 4`,
		`agent_reach_routing_overhead_seconds_bucket{le="5e-05"} 3`,
		`agent_reach_routing_overhead_seconds_bucket{le="0.001"} 4`,
		`agent_reach_routing_overhead_seconds_sum 0.001`,
		`agent_reach_retries_total 3`,
		`agent_reach_build_info{version="1.2.3"} 1`,
	)
}

func TestSources(t *testing.T) {
	asked := 0
	m := New("", Sources{
		QueueDepth: func() int { return 3 }, Links: func() int { return 5 }, SeenIDs: func() int { return 7 },
		States: func() map[envelope.State]int {
			asked++
			return map[envelope.State]int{envelope.Available: 2, envelope.Suspect: 1, "invented": 9}
		},
	})
	text := scrape(t, m)
	has(t, text,
		`agent_reach_queue_depth 3`, `agent_reach_links 5`, `agent_reach_seen_ids 7`, `agent_reach_available_agents 2`,
		`agent_reach_agents{state="available"} 2`, `agent_reach_agents{state="suspect"} 1`, `agent_reach_agents{state="draining"} 0`,
		`agent_reach_agents{state="pending"} 0`, `agent_reach_agents{state="unavailable"} 0`,
	)
	if asked != 1 {
		t.Errorf("the states were asked for %d times in one scrape", asked)
	}
	if strings.Contains(text, "invented") {
		t.Error("a label that is in no list")
	}
	for _, runtime := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		if !strings.Contains(text, runtime) {
			t.Errorf("no %s", runtime)
		}
	}
	if bare := scrape(t, New("", Sources{})); strings.Contains(bare, "agent_reach_links") {
		t.Error("a series without a source")
	}
}

// Whatever others send as code, step or type, the number of series stays bounded.
func TestLabelsAreBounded(t *testing.T) {
	m := New("", Sources{})
	for i := range 1000 {
		m.Observe(arrival(envelope.MsgType(fmt.Sprint("type", i))))
		m.Observe(reach.Event{Step: envelope.StepCall, Err: envelope.Errorf(envelope.Code(fmt.Sprint("code", i)), envelope.Step(fmt.Sprint("step", i)), "x")})
	}
	has(t, scrape(t, m), `agent_reach_messages_total{msg_type="other"} 1000`, `agent_reach_calls_total{code="other",step="other"} 1000`)
	if n := m.results.Size(); n != 1 {
		t.Errorf("%d children", n)
	}
}

func TestObserveFromManyGoroutines(t *testing.T) {
	m := New("", Sources{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				m.Observe(arrival(envelope.Request))
				m.Observe(reach.Event{Step: envelope.StepCall, Err: envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "x")})
			}
		})
	}
	all.Wait()
	has(t, scrape(t, m), `agent_reach_messages_total{msg_type="request"} 4000`, `agent_reach_calls_total{code="no_route",step="resolve"} 4000`)
}

func BenchmarkObserve(b *testing.B) {
	m := New("", Sources{})
	arrived, called := arrival(envelope.Request), reach.Event{Step: envelope.StepCall, Duration: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(arrived)
		m.Observe(called)
	}
}

// A step or state that envelope learns must be learnt here too, or it counts as other.
func TestListsAreWhole(t *testing.T) {
	for file, known := range map[string]func(string) bool{
		"../../envelope/errors.go": func(s string) bool { return steps[envelope.Step(s)] },
		"../../envelope/record.go": func(s string) bool {
			return s == string(envelope.Removed) || slices.Contains(states, envelope.State(s))
		},
		"../../envelope/header.go": func(s string) bool { return slices.Contains(msgTypes, envelope.MsgType(s)) },
	} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^\t\w+ +(?:Step|State|MsgType) += "(\w+)"`).FindAllSubmatch(source, -1)
		if len(found) < 6 {
			t.Errorf("%s: only %d constants found", file, len(found))
		}
		for _, f := range found {
			if !known(string(f[1])) {
				t.Errorf("%s: %s is not known here", file, f[1])
			}
		}
	}
}
