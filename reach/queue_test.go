package reach_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatal("in vain waited for: " + what)
		case <-tick.C:
		}
	}
}

// gate holds every request of an agent until it is opened.
type gate struct {
	open  chan struct{}
	order []string
	mu    sync.Mutex
	now   atomic.Int64
	most  atomic.Int64
}

func (g *gate) act(ctx context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
	if n := g.now.Add(1); n > g.most.Load() {
		g.most.Store(n)
	}
	defer g.now.Add(-1)
	select {
	case <-g.open:
	case <-ctx.Done():
		return envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "no answer in time")
	}
	g.mu.Lock()
	g.order = append(g.order, m.Header.ConversationID)
	g.mu.Unlock()
	return sink(a.reply(m, nil, nil))
}

func TestUrgentRequestsOvertakeAndLimitHolds(t *testing.T) {
	w := newWorld(t, usual())
	g := &gate{open: make(chan struct{})}
	w.attach("slow", "stock.query", "1.0.0", "true", limit(1, 100)).act = g.act
	var all sync.WaitGroup
	send := func(priority int, name string) {
		running, waiting := w.home.Load("slow")
		all.Go(func() {
			if _, err := w.call(w.request("stock.query", `{}`, func(h *envelope.Header) { h.Priority, h.ConversationID = priority, name })); err != nil {
				t.Error(err)
			}
		})
		eventually(t, name+" to be in", func() bool {
			r, q := w.home.Load("slow")
			return r+q == running+waiting+1
		})
	}
	send(5, "first")
	for i := range 3 {
		send(9, fmt.Sprint("late-", i))
	}
	for i := range 3 {
		send(1, fmt.Sprint("urgent-", i))
	}
	close(g.open)
	all.Wait()
	want := "[first urgent-0 urgent-1 urgent-2 late-0 late-1 late-2]"
	if got := fmt.Sprint(g.order); got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if g.most.Load() != 1 {
		t.Errorf("%d ran at once, limit 1", g.most.Load())
	}
}

// Case 26: what is full says so; sent = answered + refused, exactly.
func TestFullQueueRefusesAndTheBooksBalance(t *testing.T) {
	w := newWorld(t, usual())
	g := &gate{open: make(chan struct{})}
	a := w.attach("slow", "stock.query", "1.0.0", "true", limit(2, 5))
	a.act = g.act
	const sent = 40
	var all sync.WaitGroup
	var answered, refused atomic.Int64
	for range sent {
		all.Go(func() {
			_, err := w.call(w.request("stock.query", `{}`, nil))
			if err == nil {
				answered.Add(1)
				return
			}
			if e := envelope.AsError(err); e.Code == envelope.Overloaded && e.RetryAfter >= time.Second {
				refused.Add(1)
			} else {
				t.Error(err)
			}
		})
	}
	eventually(t, "33 refusals", func() bool { return refused.Load() == sent-7 })
	close(g.open)
	all.Wait()
	if answered.Load() != 7 || refused.Load() != 33 || a.runs.Load() != 7 {
		t.Errorf("answered %d, refused %d, ran %d; want 7, 33, 7", answered.Load(), refused.Load(), a.runs.Load())
	}
	if r, q := w.home.Load("slow"); r+q != 0 {
		t.Errorf("left behind: %d running, %d waiting", r, q)
	}
}

func TestTTLEndsTheWaitInTheQueue(t *testing.T) {
	w := newWorld(t, usual())
	g := &gate{open: make(chan struct{})}
	a := w.attach("slow", "stock.query", "1.0.0", "true", limit(1, 5))
	a.act = g.act
	done := make(chan error, 1)
	go func() {
		_, err := w.call(w.request("stock.query", `{}`, nil))
		done <- err
	}()
	eventually(t, "the first to run", func() bool { return a.runs.Load() == 1 })
	m := w.request("stock.query", `{}`, nil)
	m.Deadline = time.Now().Add(20 * time.Millisecond)
	_, err := w.call(m)
	wantCode(t, err, envelope.Expired, "not handed over")
	close(g.open)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := a.runs.Load(); n != 1 {
		t.Errorf("the agent ran %d times, want 1", n)
	}
}

func TestDetachEndsTheWait(t *testing.T) {
	w := newWorld(t, usual())
	g := &gate{open: make(chan struct{})}
	a := w.attach("slow", "stock.query", "1.0.0", "true", limit(1, 5))
	a.act = g.act
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := w.call(w.request("stock.query", `{}`, nil))
			errs <- err
		}()
	}
	eventually(t, "one to run and one to wait", func() bool {
		r, q := w.home.Load("slow")
		return r == 1 && q == 1
	})
	w.home.Detach("slow")
	wantCode(t, <-errs, envelope.Unreachable, "no longer attached")
	close(g.open)
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

// Case 28: a broadcast takes as long as the slowest, not as all together: nobody is answered before everybody was asked.
func TestBroadcastAsksAllAtOnce(t *testing.T) {
	w := newWorld(t, usual())
	const n = 20
	var asked sync.WaitGroup
	asked.Add(n)
	for i := range n {
		w.attach(fmt.Sprintf("a-%02d", i), "stock.query", "1.0.0", "true").act = func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
			asked.Done()
			asked.Wait()
			if i == 3 {
				return envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "as the test wants")
			}
			return sink(a.reply(m, []byte(`1`), nil))
		}
	}
	m := w.request("stock.query", `{}`, func(h *envelope.Header) { h.MsgType = envelope.Broadcast })
	out, err := w.ingress.Broadcast(context.Background(), m)
	if err != nil || len(out) != n {
		t.Fatalf("%d outcomes, %v", len(out), err)
	}
	for i, o := range out {
		if i == 3 {
			wantCode(t, o.Err, envelope.Timeout)
		} else if o.Err != nil || len(o.Parts) != 1 {
			t.Errorf("%s: %v", o.Agent, o.Err)
		}
	}
	_, err = w.ingress.Broadcast(context.Background(), m)
	wantCode(t, err, envelope.Duplicate)
}
