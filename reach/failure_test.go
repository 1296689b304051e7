package reach_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

func TestNextCandidateWhenNothingWasHandedOver(t *testing.T) {
	w := newWorld(t, usual())
	dead := w.attach("dead", "stock.query", "1.0.0", "true")
	dead.act = fails(envelope.Unreachable)
	w.attach("alive", "stock.query", "1.0.0", "true")
	for range 20 {
		if who, err := w.call(w.request("stock.query", `{}`, nil)); err != nil || who != "alive" {
			t.Fatalf("%q, %v", who, err)
		}
	}
}

// Case 11: a call that may have run is not run again; one that cannot be reached is tried max_retry_count times more, no oftener.
func TestRetriesAreBoundedAndOnlyWhenSafe(t *testing.T) {
	for _, c := range []struct {
		code   envelope.Code
		effect envelope.Effect
		runs   int64
	}{
		{envelope.Unreachable, envelope.Unsafe, 3},
		{envelope.Timeout, envelope.Unsafe, 1},
		{envelope.Timeout, envelope.Read, 3},
		{envelope.Timeout, envelope.Idempotent, 3},
		{envelope.Malformed, envelope.Read, 1},
	} {
		t.Run(fmt.Sprint(c.code, " ", c.effect), func(t *testing.T) {
			w := newWorld(t, usual())
			var all []*agent
			for i := range 6 {
				a := w.attach(fmt.Sprintf("a-%d", i), "pay", "1.0.0", "true", effect(c.effect))
				a.act = fails(c.code)
				all = append(all, a)
			}
			_, err := w.call(w.request("pay", `{}`, nil))
			wantCode(t, err, c.code)
			var runs int64
			for _, a := range all {
				runs += a.runs.Load()
			}
			if runs != c.runs {
				t.Errorf("%d hand-overs, want %d", runs, c.runs)
			}
		})
	}
}

// Once a try may have run the request, no later refusal makes that unsaid, and nobody gets it whose capability may not be repeated.
func TestWhatMayHaveRunIsSaid(t *testing.T) {
	w := newWorld(t, reach.Routing{Mode: reach.Best, Retry: true, MaxRetry: 2})
	w.attach("first", "stock.query", "1.0.0", "true", effect(envelope.Read)).act = fails(envelope.Timeout)
	w.attach("second", "stock.query", "1.0.0", "true", effect(envelope.Read)).act = fails(envelope.Unreachable)
	w.paths.Report(here, "second", 0.5)
	m := w.request("stock.query", `{}`, nil)
	first := *m
	_, err := w.call(&first)
	wantCode(t, err, envelope.Timeout, "it may have run", "first", "second")
	_, err = w.call(m)
	wantCode(t, err, envelope.Duplicate)

	w = newWorld(t, reach.Routing{Mode: reach.Best, Retry: true, MaxRetry: 2})
	w.attach("first", "stock.query", "1.0.0", "true", effect(envelope.Read)).act = fails(envelope.Timeout)
	unsafe := w.attach("second", "stock.query", "1.0.0", "true", effect(envelope.Unsafe))
	w.paths.Report(here, "second", 0.5)
	_, err = w.call(w.request("stock.query", `{}`, nil))
	wantCode(t, err, envelope.Timeout)
	if unsafe.runs.Load() != 0 {
		t.Error("a call that may have run was given to one that may not repeat it")
	}
}

func TestRetryCanBeSwitchedOff(t *testing.T) {
	w := newWorld(t, reach.Routing{Mode: reach.Best, MaxRetry: 2})
	a := w.attach("a", "pay", "1.0.0", "true")
	b := w.attach("b", "pay", "1.0.0", "true")
	a.act, b.act = fails(envelope.Unreachable), fails(envelope.Unreachable)
	_, err := w.call(w.request("pay", `{}`, nil))
	wantCode(t, err, envelope.Unreachable)
	if n := a.runs.Load() + b.runs.Load(); n != 1 {
		t.Errorf("%d hand-overs, want 1", n)
	}
}

func TestNoRetryOnceAPartHasReachedTheCaller(t *testing.T) {
	w := newWorld(t, usual())
	for _, id := range []string{"a", "b"} {
		w.attach(id, "stock.query", "1.0.0", "true", effect(envelope.Read)).act = func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
			if err := sink(a.reply(m, []byte("1"), nil)); err != nil {
				return err
			}
			return envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "cut")
		}
	}
	parts, err := w.reach(context.Background(), w.request("stock.query", `{}`, nil))
	wantCode(t, err, envelope.Timeout)
	if len(parts) != 1 {
		t.Errorf("%d parts reached the caller, want 1", len(parts))
	}
}

// Case 21: the same msg_id is never run twice, not even at the same moment.
func TestSameMessageRunsOnce(t *testing.T) {
	w := newWorld(t, usual())
	a := w.attach("pay-1", "pay", "1.0.0", "true")
	m := w.request("pay", `{}`, nil)
	var all sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		all.Go(func() {
			own := *m
			_, errs[i] = w.call(&own)
		})
	}
	all.Wait()
	ok := 0
	for _, err := range errs {
		if err == nil {
			ok++
		} else {
			wantCode(t, err, envelope.Duplicate)
		}
	}
	if n := a.runs.Load(); n != 1 || ok != 1 {
		t.Errorf("%d runs, %d answers; want one of each", n, ok)
	}
}

func TestAnHonestRetryIsNoDuplicate(t *testing.T) {
	w := newWorld(t, usual())
	a := w.attach("pay-1", "pay", "1.0.0", "true")
	for _, code := range []envelope.Code{envelope.Unreachable, envelope.Overloaded} {
		m := w.request("pay", `{}`, nil)
		a.act = fails(code)
		first := *m
		_, err := w.call(&first)
		wantCode(t, err, code)
		a.act = nil
		if _, err := w.call(m); err != nil {
			t.Errorf("again after %s: %v", code, err)
		}
	}
}

// Case 13: who fails in no time gets less than who succeeds in a while, and a failed first attempt lowers the score.
func TestFastFailureAttractsNoTraffic(t *testing.T) {
	for name, fail := range map[string]func(context.Context, *reach.Message, *agent, reach.Sink) error{
		"refuses": fails(envelope.Overloaded),
		"cut off": fails(envelope.Unreachable),
		"crashes": func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
			return sink(a.reply(m, nil, crash))
		},
		"timeouts": fails(envelope.Timeout),
		"has no room": func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
			return sink(a.reply(m, nil, func(h *envelope.Header) {
				h.Status, h.Error = envelope.StatusError, []byte(`{"code":"rate_limited","text":"later"}`)
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, reach.Routing{Mode: reach.WeightedRandom, TopN: 3, Retry: true, MaxRetry: 2})
			bad := w.attach("bad", "stock.query", "1.0.0", "true")
			bad.act = fail
			good := w.attach("good", "stock.query", "1.0.0", "true")
			good.act = func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
				w.paths.Outcome(here, "good", true, 100*time.Millisecond, time.Now())
				return sink(a.reply(m, nil, nil))
			}
			before := w.paths.Score(w.directory.Agent("bad"), time.Now())
			for range 300 {
				_, _ = w.call(w.request("stock.query", `{}`, nil))
			}
			if b, g := bad.runs.Load(), good.runs.Load(); b*2 > g {
				t.Errorf("the failing one was asked %d times, the other %d", b, g)
			}
			if after := w.paths.Score(w.directory.Agent("bad"), time.Now()); after >= before-2 {
				t.Errorf("its score went from %.1f to %.1f only", before, after)
			}
		})
	}
}

func crash(h *envelope.Header) {
	h.Status, h.Error = envelope.StatusError, []byte(`{"code":"agent_error","text":"KeyError: sku"}`)
}

func TestABusinessErrorIsNoFailureOfThePath(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("shop", "buy", "1.0.0", "true").act = func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
		return sink(a.reply(m, nil, func(h *envelope.Header) {
			h.Status, h.Error = envelope.StatusError, []byte(`{"code":"out_of_stock","text":"none left"}`)
		}))
	}
	for range 10 {
		if _, err := w.call(w.request("buy", `{}`, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if f := w.paths.Factors(w.directory.Agent("shop"), time.Now()); f.Success != 1 || f.Latency != 0.5 {
		t.Errorf("%+v: it did its work, and nobody knows how fast it is when it does not decline", f)
	}
}

// Case 29: A calls B calls A, which has one place and waits: refused by name at once.
func TestCallCycleIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t, usual())
	var second error
	a := w.attach("agent-a", "cap.a", "1.0.0", "true", limit(1, 10))
	a.act = func(ctx context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
		own := w.request("cap.a", `{}`, func(h *envelope.Header) { h.Chain, h.SourceAgent = []string{"caller", "agent-a"}, "caller" })
		_, second = w.call(own)
		return sink(a.reply(m, nil, nil))
	}
	if _, err := w.call(w.request("cap.a", `{}`, nil)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, second, envelope.Loop, "agent-a is waiting for this very call", "max_concurrent_requests")
}

func TestTooDeepAChainIsRefused(t *testing.T) {
	chain := make([]string, envelope.MaxChain+1)
	for i := range chain {
		chain[i] = fmt.Sprintf("a-%d", i)
	}
	_, err := envelope.New(envelope.Header{MsgID: "m", MsgType: envelope.Request, SourceAgent: "a", TargetCapability: "c", Chain: chain,
		Timestamp: envelope.Timestamp{Time: time.Now()}}, nil)
	wantCode(t, err, envelope.Loop, "17", "16")
}
