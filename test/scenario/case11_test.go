package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// replicas starts agents of every kind that hold what they are asked, each in a process that can be killed.
func replicas(t *testing.T, n *node, capability string) []*process {
	t.Helper()
	offer := strings.Replace(capability, ":", "=hold:", 1)
	out := []*process{goAgent(t, n, "go-1", offer), goAgent(t, n, "go-2", offer)}
	if havePython() {
		return append(out, pythonAgent(t, n, "py-link", offer), pythonAgent(t, n, "py-http", offer, "--http", strconv.Itoa(freePort(t))))
	}
	return append(out, goAgent(t, n, "go-3", offer), goAgent(t, n, "go-4", offer))
}

// running waits for one of the processes to say that it runs a request, and returns which; those in dead are not looked at.
func running(t *testing.T, all []*process, dead map[int]bool) (which int) {
	t.Helper()
	eventually(t, "somebody runs the request", func() bool {
		for i, p := range all {
			if line, _, _ := p.find(0, "running "); line != "" && !dead[i] {
				which = i
				return true
			}
		}
		return false
	})
	return which
}

// runs counts how often all of them have run something.
func runs(all []*process) (count int) {
	for _, p := range all {
		for _, text := range p.printed(false) {
			if strings.HasPrefix(text, "running ") {
				count++
			}
		}
	}
	return count
}

// TestCase11StackedRetries: a call with side effects runs once, whatever becomes of its agent and however many others could.
func TestCase11StackedRetries(t *testing.T) {
	n := startNode(t, nil)
	all := replicas(t, n, "order.pay:unsafe")
	caller := newAgent(t, n, "caller")
	dead := make(map[int]bool)
	for i := range all {
		ended := make(chan error, 1)
		go func() { ended <- caller.Call(short(t), "order.pay", map[string]int{"n": i}, nil) }()
		victim := running(t, all, dead)
		all[victim].kill()
		dead[victim] = true
		if err := within(t, ended, "the caller's error"); !errors.Is(err, envelope.Timeout) {
			t.Errorf("the agent was killed while it ran: %v", err)
		}
		if got := runs(all); got != i+1 {
			t.Fatalf("%d calls ran %d times", i+1, got)
		}
	}
}

// TestCase11RetriesDoNotMultiply: what may be repeated runs at most 1 + max_retry_count times, over caller, node and agents together.
func TestCase11RetriesDoNotMultiply(t *testing.T) {
	n := startNode(t, settings{"routing.max_retry_count": "2"})
	all := append(replicas(t, n, "report.read:read"), goAgent(t, n, "go-5", "report.read=hold:read"))
	caller := newAgent(t, n, "caller")
	ended := make(chan error, 1)
	go func() { ended <- caller.Call(short(t), "report.read", nil, nil) }()
	dead := make(map[int]bool)
	for range 3 {
		victim := running(t, all, dead)
		all[victim].kill()
		dead[victim] = true
	}
	if err := within(t, ended, "the caller's error"); !errors.Is(err, envelope.Timeout) {
		t.Errorf("three agents were killed while they ran: %v", err)
	}
	if got := runs(all); got != 3 {
		t.Errorf("the call ran %d times", got)
	}
	if got := n.metrics(t)["agent_reach_retries_total"]; got != 2 {
		t.Errorf("the node counts %v retries", got)
	}
}

// TestCase11SlowIsNotRetried: a call that is merely slow runs once, and its time-out is the caller's.
func TestCase11SlowIsNotRetried(t *testing.T) {
	n := startNode(t, nil)
	all := replicas(t, n, "order.pay:read")
	caller := newAgent(t, n, "caller")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := caller.Call(ctx, "order.pay", map[string]int{}, nil, sdk.TTL(time.Minute))
	if !errors.Is(err, envelope.Timeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	running(t, all, nil)
	if got := runs(all); got != 1 {
		t.Errorf("the call ran %d times", got)
	}
	for _, p := range all {
		p.tell(t, "release")
	}
	for i, p := range all { // one that would have run it a second time would say so by now
		if err := caller.Call(short(t), "order.pay", map[string]int{}, nil, sdk.ToAgent(replicaID(i))); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	if got := runs(all); got != 1+len(all) {
		t.Errorf("1 + %d calls ran %d times", len(all), got)
	}
}

// replicaID is the id of replicas' number i.
func replicaID(i int) string {
	if i >= 2 && havePython() {
		return []string{"py-link", "py-http"}[i-2]
	}
	return fmt.Sprintf("go-%d", i+1)
}
