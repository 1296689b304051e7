package scenario

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/sdk"
)

// TestCase13FastFailureAttractsNoTraffic: an agent that fails at once gets less than one that takes its time and succeeds.
func TestCase13FastFailureAttractsNoTraffic(t *testing.T) {
	n := startNode(t, nil)
	var failed, succeeded atomic.Int32
	bad, good := newAgent(t, n, "bad", sdk.WithMaxConcurrent(50)), newAgent(t, n, "good", sdk.WithMaxConcurrent(50))
	bad.Handle(offer("job.run"), func(context.Context, *sdk.Request) (any, error) {
		failed.Add(1)
		return nil, fmt.Errorf("broken")
	})
	good.Handle(offer("job.run"), func(ctx context.Context, _ *sdk.Request) (any, error) {
		succeeded.Add(1)
		work(ctx, 100*time.Millisecond)
		return "done", nil
	})
	serve(t, bad)
	serve(t, good)
	caller := newAgent(t, n, "caller")
	manyCalls(t, caller, "job.run", 8, 10)
	if f, s := failed.Load(), succeeded.Load(); f >= s {
		t.Errorf("the failing agent got %d calls, the working one %d", f, s)
	}
	agents := n.agents(t)
	if agents["bad"].Score >= agents["good"].Score {
		t.Errorf("scores: the failing agent %v, the working one %v", agents["bad"].Score, agents["good"].Score)
	}
}

// work takes a handler's time, as a call to something slow would.
func work(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// manyCalls calls from several goroutines, and returns how many got an answer.
func manyCalls(t *testing.T, caller *sdk.Agent, capability string, goroutines, each int) (answered int) {
	t.Helper()
	var got atomic.Int32
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				if caller.Call(short(t), capability, map[string]int{}, nil) == nil {
					got.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(got.Load())
}

// TestCase13InstantRefusalAttractsNoTraffic: an agent that answers 429 at once is charged for it although another candidate answers in its stead.
func TestCase13InstantRefusalAttractsNoTraffic(t *testing.T) {
	n := startNode(t, nil)
	var refused, served atomic.Int32
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			refused.Add(1)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(busy.Close)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			served.Add(1)
			work(r.Context(), 50*time.Millisecond)
		}
		fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(slow.Close)
	attach(t, n, "busy", "job.run", busy.URL)
	attach(t, n, "slow", "job.run", slow.URL)
	caller := newAgent(t, n, "caller")
	const calls = 80
	if got := manyCalls(t, caller, "job.run", 4, calls/4); got != calls {
		t.Errorf("%d of %d calls were answered", got, calls)
	}
	if got := refused.Load(); got >= calls/2 || served.Load() != calls {
		t.Errorf("%d calls: the refusing agent was tried %d times, the other one served %d", calls, got, served.Load())
	}
	agents := n.agents(t)
	if agents["busy"].Score >= agents["slow"].Score {
		t.Errorf("scores: the refusing agent %v, the other one %v", agents["busy"].Score, agents["slow"].Score)
	}
	if n.metrics(t)["agent_reach_retries_total"] == 0 {
		t.Error("no retry is counted")
	}
}
