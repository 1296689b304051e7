package registry

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// bubble runs f with time that passes only when everybody waits.
func bubble(t *testing.T, f func(t *testing.T)) {
	if racing {
		t.Skip("no bubbles under the race detector")
	}
	synctest.Test(t, f)
}

func (n *node) wantState(id string, want envelope.State) {
	n.t.Helper()
	synctest.Wait()
	if got := n.state(id); got != want {
		v, _ := n.View(id)
		n.t.Fatalf("%s is %s, not %s (%s)", id, got, want, v.Reason)
	}
}

func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		a := newAgent(n, "stock").mustOpen()
		began := time.Now()
		until := func(after time.Duration) { time.Sleep(time.Until(began.Add(after))) }
		a.mustRegister("", "stock.query")

		until(89_999 * time.Millisecond)
		n.wantState("stock", envelope.Available)
		if _, err := a.heartbeat(`{}`); err != nil {
			t.Fatal(err)
		}
		until(179_990 * time.Millisecond)
		n.wantState("stock", envelope.Available)
		until(180 * time.Second)
		n.wantState("stock", envelope.Unavailable)
		if v, _ := n.View("stock"); v.Reason != "silent for 90 s" || n.Directory.Agent("stock").State != envelope.Unavailable {
			t.Fatalf("%+v", v)
		}
		_, err := newCaller(n).call(t.Context(), "stock.query", "{}")
		wantError(t, err, envelope.NoRoute, "silent for 90 s")

		if s, err := a.heartbeat(``); err != nil || s.State != envelope.Pending && s.State != envelope.Available {
			t.Fatal(s, err)
		}
		n.wantState("stock", envelope.Available)
		began = time.Now()
		until(179_999 * time.Millisecond)
		n.wantState("stock", envelope.Unavailable)
		until(180 * time.Second)
		n.wantState("stock", envelope.Removed)
		if n.Directory.Agent("stock") != nil || n.Directory.Capability("stock.query") != nil {
			t.Fatal("a removed agent is still in the directory")
		}
		_, err = a.heartbeat(`{}`)
		wantError(t, err, envelope.UnknownAgent, "register again")
		if s := a.mustRegister("", "stock.query"); s.State != envelope.Available {
			t.Fatalf("%+v", s)
		}
	})
}

// When the link is lost, who ran may have run, and who waited certainly did not.
func TestLostLinkEndsWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		a := newAgent(n, "stock")
		a.answer = nil
		a.mustOpen().mustRegister(`,"max_concurrent_requests":1`, "stock.query")
		caller := newCaller(n)
		ran, waited := make(chan error, 1), make(chan error, 1)
		for _, ended := range []chan error{ran, waited} {
			go func() { _, err := caller.call(context.Background(), "stock.query", "{}"); ended <- err }()
			synctest.Wait()
		}
		a.drop()
		synctest.Wait()
		select {
		case err := <-waited:
			wantError(t, err, envelope.Unreachable)
		default:
			t.Fatal("it still waits for an agent that is gone")
		}
		wantError(t, <-ran, envelope.Timeout)
	})
}

// An agent that only calls over HTTP has nothing that could answer a probe: its heartbeat alone brings it back.
func TestSilentCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		a := newCaller(n)
		time.Sleep(100 * time.Second)
		n.wantState("orders", envelope.Unavailable)
		if s, err := a.heartbeat(`{}`); err != nil || s.State != envelope.Available {
			t.Fatal(s, err)
		}
		a.mustOpen().mustRegister("", "orders.list")
		if _, err := a.call(t.Context(), "orders.list", "{}"); err != nil {
			t.Fatal(err)
		}
		a.link = nil
		a.mustRegister("") // offers nothing any more, and cannot be called
		n.wantState("orders", envelope.Available)
		if err := n.Home.Deliver(t.Context(), "orders", a.says(envelope.Request, "{}", func(h *envelope.Header) { h.TargetAgent = "orders" }), nil); err == nil {
			t.Fatal("it is still called over its old link")
		}
	})
}

func newCaller(n *node) *agent {
	n.t.Helper()
	a := newAgent(n, "orders")
	a.mustRegister("")
	return a
}

func TestLostLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		a := newAgent(n, "stock").mustOpen()
		a.mustRegister("", "stock.query")
		caller := newCaller(n)
		fail := func() { n.Paths.Outcome(n.Node, "stock", false, 0, time.Now()) }
		score := func() float64 { return n.Paths.Score(n.Directory.Agent("stock"), time.Now()) }
		fail()
		learned := score()
		if learned == 10 {
			t.Fatal("the path learned nothing")
		}

		a.drop()
		n.wantState("stock", envelope.Unavailable)
		if v, _ := n.View("stock"); !strings.HasPrefix(v.Reason, "link lost") {
			t.Fatal(v.Reason)
		}
		_, err := caller.call(t.Context(), "stock.query", "{}")
		wantError(t, err, envelope.NoRoute, "link lost")
		b := a.twin()
		_, err = b.heartbeat(`{}`)
		wantError(t, err, envelope.UnknownAgent, "register again")

		time.Sleep(4 * time.Second)
		b.mustOpen()
		n.wantState("stock", envelope.Unavailable) // a link alone offers nothing
		b.mustRegister("", "stock.query")
		n.wantState("stock", envelope.Available)
		if score() != learned {
			t.Fatalf("score %v after a short break, it was %v", score(), learned)
		}
		if _, err := caller.call(t.Context(), "stock.query", "{}"); err != nil {
			t.Fatal(err)
		}

		b.drop()
		time.Sleep(6 * time.Second)
		if score() != 10 {
			t.Fatalf("score %v long after the link was lost", score())
		}
		time.Sleep(175 * time.Second)
		n.wantState("stock", envelope.Removed)
	})
}

func TestSuspect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config) { c.HeartbeatTimeout, c.CapabilityTTL = time.Hour, 2*time.Hour })
		a := newAgent(n, "stock").mustOpen()
		a.mustRegister("", "stock.query")
		fail := func(times int) {
			for range times {
				n.Outcome("stock", true)
			}
		}
		fail(2)
		n.Outcome("stock", false)
		fail(2)
		n.wantState("stock", envelope.Available)
		fail(1)
		n.wantState("stock", envelope.Suspect)
		// It answers probes, but every call fails: each time it takes twice as long until it is trusted again.
		for _, wait := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			time.Sleep(wait*time.Second - time.Millisecond)
			n.wantState("stock", envelope.Suspect)
			time.Sleep(time.Millisecond)
			n.wantState("stock", envelope.Available)
			fail(3)
			n.wantState("stock", envelope.Suspect)
		}
		n.Outcome("stock", false)
		n.wantState("stock", envelope.Available)
		fail(3)
		time.Sleep(time.Second)
		n.wantState("stock", envelope.Available)
	})
}

func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		a, b := newAgent(n, "stock-a"), newAgent(n, "stock-b")
		started, finish := make(chan struct{}, 8), make(chan struct{})
		a.answer = func(*envelope.Envelope) ([]byte, error) {
			started <- struct{}{}
			<-finish
			return []byte(`"a"`), nil
		}
		a.mustOpen().mustRegister(`,"max_concurrent_requests":1`, "stock.query")
		caller := newCaller(n)
		type result struct {
			payload []byte
			err     error
		}
		results := make(chan result, 2)
		for range 2 { // one runs, one waits
			go func() {
				payload, err := caller.call(context.Background(), "stock.query", "{}")
				results <- result{payload, err}
			}()
			synctest.Wait()
		}
		<-started
		b.answer = func(*envelope.Envelope) ([]byte, error) { return []byte(`"b"`), nil }
		b.mustOpen().mustRegister("", "stock.query")

		s, err := a.tell(a.says(envelope.Unregister, `{}`, nil))
		if err != nil || s.State != envelope.Draining {
			t.Fatal(s, err)
		}
		if r := <-results; !envelope.AsError(r.err).Code.NotRun() { // chosen before b was there, and certainly not run
			t.Fatalf("%s, %v", r.payload, r.err)
		}
		for range 5 {
			if got, err := caller.call(t.Context(), "stock.query", "{}"); err != nil || string(got) != `"b"` {
				t.Fatal(got, err)
			}
		}
		time.Sleep(30 * time.Second)
		n.wantState("stock-a", envelope.Draining)
		close(finish)
		if r := <-results; r.err != nil || string(r.payload) != `"a"` {
			t.Fatal(r.payload, r.err)
		}
		time.Sleep(100 * time.Millisecond)
		n.wantState("stock-a", envelope.Removed)
		s, err = b.tell(b.says(envelope.Unregister, `{}`, nil))
		if err != nil || s.State != envelope.Removed || n.Directory.Len() != 1 {
			t.Fatal("an idle agent is removed at once", s, err)
		}
	})
}

// Leases of many agents end when each is due, and not on a round of all.
func TestManyLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		const count = 60
		for i := range count {
			a := newAgent(n, "caller-"+string(rune('a'+i%26))+strings.Repeat("x", i/26))
			a.mustRegister("")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Until(n.oldest().Add(90 * time.Second)))
		for range count {
			synctest.Wait()
			time.Sleep(50 * time.Millisecond)
			want := time.Since(n.oldest()) - 90*time.Second
			silent := 0
			for _, v := range n.Views() {
				if v.State == envelope.Unavailable {
					silent++
				}
			}
			if due := min(int(want/(100*time.Millisecond))+1, count); silent != due {
				t.Fatalf("%d are unavailable, %d are due", silent, due)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func (n *node) oldest() (at time.Time) {
	for _, v := range n.Views() {
		if at.IsZero() || v.Heard.Before(at) {
			at = v.Heard
		}
	}
	return at
}
