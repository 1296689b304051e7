package scenario

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// tally counts how calls ended, by code; "ok" is an answer.
type tally struct {
	mu    sync.Mutex
	codes map[string]int
}

func (c *tally) add(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.codes == nil {
		c.codes = make(map[string]int)
	}
	c.codes[code]++
}

func (c *tally) count(code string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.codes[code]
}

func codeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, envelope.AgentFailed):
		return string(envelope.AgentFailed)
	}
	return string(envelope.AsError(err).Code)
}

// TestCase26SilentDropWhenFull: 500 calls at an agent with 4 places and a queue of 50: what was sent is what was answered plus what was
// reported, exactly, to the callers and in the metrics.
func TestCase26SilentDropWhenFull(t *testing.T) {
	const calls, limit, queue = 500, 4, 50
	n := startNode(t, settings{"routing.queue_per_agent": strconv.Itoa(queue), "logging.access_log_enabled": "false"})
	var ran atomic.Int32
	release := make(chan struct{})
	a := newAgent(t, n, "slow", sdk.WithMaxConcurrent(limit))
	a.Handle(offer("slow.work"), func(context.Context, *sdk.Request) (any, error) { ran.Add(1); <-release; return nil, nil })
	serve(t, a)
	var ended tally
	var all sync.WaitGroup
	caller, v := newAgent(t, n, "caller"), registered(t, n, "voice")
	for i := range calls {
		all.Go(func() {
			if i%2 == 0 {
				ended.add(codeOf(caller.Call(short(t), "slow.work", nil, nil)))
				return
			}
			r, err := v.tryPost(t.Context(), "/v1/messages", v.document(v.header(envelope.Request, "slow.work"), ""))
			switch {
			case err != nil:
				ended.add(err.Error())
			case r.status == http.StatusOK:
				ended.add("ok")
			case r.header.Get("Retry-After") == "" || r.problem(t).Hint == "":
				t.Errorf("refused without help: %v %s", r.header, r.body)
				fallthrough
			default:
				ended.add(string(r.problem(t).Code))
			}
		})
	}
	eventually(t, "those beyond the queue are refused", func() bool { return ended.count("overloaded") == calls-limit-queue })
	if m := n.metrics(t); m["agent_reach_queue_depth"] != queue {
		t.Errorf("the node says %v wait", m["agent_reach_queue_depth"])
	}
	close(release)
	all.Wait()
	if ended.count("ok") != limit+queue || ended.count("overloaded") != calls-limit-queue || ran.Load() != limit+queue {
		t.Errorf("%d calls ended as %v; %d ran", calls, ended.codes, ran.Load())
	}
	if ok, full := n.calls(t, "ok"), n.calls(t, "overloaded"); ok != limit+queue || full != calls-limit-queue {
		t.Errorf("the node counts %v answered and %v refused", ok, full)
	}
}

// calls is agent_reach_calls_total of a code, over all steps.
func (n *node) calls(t testing.TB, code string) (sum float64) {
	t.Helper()
	for series, value := range n.metrics(t) {
		if strings.HasPrefix(series, `agent_reach_calls_total{code="`+code+`"`) {
			sum += value
		}
	}
	return sum
}

// TestCase26QueueLosesNothing: an agent that runs one request at a time, and a queue that never overflows: every call is answered. The place
// that the node gives to the next call is free at the agent, too.
func TestCase26QueueLosesNothing(t *testing.T) {
	n := startNode(t, settings{"logging.access_log_enabled": "false"})
	linked, served := newAgent(t, n, "go-link", sdk.WithMaxConcurrent(1)), newHTTPAgent(t, n, "go-http", nil, sdk.WithMaxConcurrent(1))
	for _, a := range []*sdk.Agent{linked, served} {
		a.Handle(offer(a.ID()+".echo"), echo)
		serve(t, a)
	}
	calls := map[string]int{"go-link": scaled(2000), "go-http": scaled(1000)}
	if havePython() {
		pythonAgent(t, n, "py-link", "py-link.echo=echo", "--limit", "1")
		pythonAgent(t, n, "py-http", "py-http.echo=echo", "--limit", "1", "--http", strconv.Itoa(freePort(t)))
		calls["py-link"], calls["py-http"] = scaled(500), scaled(300)
	}
	caller := newAgent(t, n, "caller")
	for agent, count := range calls {
		var ended tally
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range count / 16 {
					ended.add(codeOf(caller.Call(short(t), agent+".echo", map[string]int{}, nil)))
				}
			})
		}
		all.Wait()
		if ended.count("ok") != count/16*16 {
			t.Errorf("%s: %d calls ended as %v", agent, count/16*16, ended.codes)
		}
	}
}

// TestCase26AgentDiesWithAFullQueue: of the calls at an agent that is killed, those that ran are reported as time-outs and the waiting ones as certainly
// not run; none is left without a word.
func TestCase26AgentDiesWithAFullQueue(t *testing.T) {
	const calls, limit = 200, 10
	n := startNode(t, nil)
	agent := goAgent(t, n, "mortal", "mortal.work=hold")
	caller := newAgent(t, n, "caller")
	var ended tally
	var all sync.WaitGroup
	for range calls {
		all.Go(func() { ended.add(codeOf(caller.Call(short(t), "mortal.work", nil, nil))) })
	}
	eventually(t, "the agent is full and the others wait", func() bool {
		return runs([]*process{agent}) == limit && n.metrics(t)["agent_reach_queue_depth"] == calls-limit
	})
	agent.kill()
	all.Wait()
	notRun := ended.count("unreachable") + ended.count("no_route")
	if ended.count("timeout") != limit || notRun != calls-limit {
		t.Errorf("%d calls, %d of them running, ended as %v", calls, limit, ended.codes)
	}
}
