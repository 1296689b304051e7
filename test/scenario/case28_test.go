package scenario

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agent-reach/agent-reach/sdk"
)

// barrier lets everybody through when all have come.
type barrier struct {
	arrive chan struct{}
	open   chan struct{}
}

func newBarrier(t *testing.T, n int) *barrier {
	b := &barrier{arrive: make(chan struct{}), open: make(chan struct{})}
	go func() {
		for range n {
			select {
			case <-b.arrive:
			case <-t.Context().Done():
				return
			}
		}
		close(b.open)
	}()
	return b
}

// meet is a handler that answers once all have come.
func (b *barrier) meet(ctx context.Context, _ *sdk.Request) (any, error) {
	select {
	case b.arrive <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-b.open:
		return "met", nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCase28BroadcastIsNotSequential: every agent answers only when all have been asked, so that a broadcast that asked one after the other would
// never end. Go and Python agents, over links and HTTP, asked by each kind of caller.
func TestCase28BroadcastIsNotSequential(t *testing.T) {
	n := startNode(t, nil)
	ids := []string{"go-1", "go-2", "go-3", "go-http"}
	if havePython() {
		ids = append(ids, "py-1", "py-2")
	}
	var now atomic.Pointer[barrier] // of the broadcast under way
	meet := func(ctx context.Context, r *sdk.Request) (any, error) { return now.Load().meet(ctx, r) }
	for _, id := range ids {
		switch {
		case id == "go-http":
			a := newHTTPAgent(t, n, id, nil)
			a.Handle(offer("vote.cast"), meet)
			serve(t, a)
		case strings.HasPrefix(id, "py-"):
			pythonAgent(t, n, id, "vote.cast=relay")
		default:
			a := newAgent(t, n, id)
			a.Handle(offer("vote.cast"), meet)
			serve(t, a)
		}
	}
	meeting := newAgent(t, n, "meeting", sdk.WithMaxConcurrent(100))
	meeting.Handle(offer("barrier.meet"), meet)
	serve(t, meeting)

	payload := map[string]string{"to": "barrier.meet"}
	now.Store(newBarrier(t, len(ids)))
	outcomes, err := newAgent(t, n, "go-caller").Broadcast(short(t), "vote.cast", payload)
	if err != nil || len(outcomes) != len(ids) {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	for _, o := range outcomes {
		if o.Err != nil || len(o.Parts) != 1 || string(o.Parts[0].Payload) != `"met"` {
			t.Errorf("%s: %+v", o.Agent, o)
		}
	}
	now.Store(newBarrier(t, len(ids)))
	if stdout, stderr, exit := n.cli(t, "broadcast", "vote.cast", `{"to":"barrier.meet"}`, "--json"); exit != 0 || strings.Count(stdout, `"ok":true`) != len(ids) {
		t.Errorf("agent-reach broadcast exited with %d: %s%s", exit, stdout, stderr)
	}
	if havePython() {
		now.Store(newBarrier(t, len(ids)))
		r := newPythonCaller(t, n, "py-caller").call(t, map[string]any{"msg_type": "broadcast", "target_capability": "vote.cast", "payload": payload})
		if len(r.Agents) != len(ids) {
			t.Errorf("Python: %+v", r)
		}
	}
}

// TestCase28SlowBesideFast: while one call is held, fifty others over the same two links are answered.
func TestCase28SlowBesideFast(t *testing.T) {
	n := startNode(t, nil)
	release := make(chan struct{})
	a := newAgent(t, n, "go-agent")
	a.Handle(offer("go-agent.slow"), func(ctx context.Context, _ *sdk.Request) (any, error) { <-release; return nil, ctx.Err() })
	a.Handle(offer("go-agent.fast"), echo)
	serve(t, a)
	finish := map[string]func(){"go-agent": func() { close(release) }}
	if havePython() {
		p := pythonAgent(t, n, "py-agent", "py-agent.slow=hold", "py-agent.fast=echo")
		finish["py-agent"] = func() { p.tell(t, "release") }
	}
	caller := newAgent(t, n, "caller")
	for agent, finish := range finish {
		slow := make(chan error, 1)
		go func() { slow <- caller.Call(short(t), agent+".slow", map[string]int{}, nil) }()
		eventually(t, "the slow call runs", func() bool { return n.running(t, agent) == 1 })
		for i := range 50 {
			var out int
			if err := caller.Call(short(t), agent+".fast", i, &out); err != nil || out != i {
				t.Fatalf("%s, fast call %d: %d, %v", agent, i, out, err)
			}
		}
		select {
		case err := <-slow:
			t.Errorf("%s: the slow call ended early: %v", agent, err)
		default:
		}
		finish()
		if err := within(t, slow, "the slow call's answer"); err != nil {
			t.Errorf("%s: %v", agent, err)
		}
	}
}

// running is how many requests run on an agent, as the node sees it.
func (n *node) running(t testing.TB, agent string) int {
	t.Helper()
	var said struct {
		Load struct {
			Running int `json:"running"`
		} `json:"load"`
	}
	n.get(t, fmt.Sprintf("/v1/agents/%s", agent), &said)
	return said.Load.Running
}
