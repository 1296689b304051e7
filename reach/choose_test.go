package reach_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

func TestScore(t *testing.T) {
	fresh := reach.Factors{Success: 1, Latency: 1, Load: 1, Distance: 1}
	with := func(change func(*reach.Factors)) reach.Factors {
		f := fresh
		change(&f)
		return f
	}
	for _, c := range []struct {
		name    string
		weights reach.Weights
		f       reach.Factors
		want    float64
	}{
		{"a fresh agent on the same machine", reach.DefaultWeights, fresh, 10},
		{"half of its calls failed", reach.DefaultWeights, with(func(f *reach.Factors) { f.Success = 0.5 }), 8},
		{"a mean of a second", reach.DefaultWeights, with(func(f *reach.Factors) { f.Latency = 0.5 }), 8.5},
		{"across the internet", reach.DefaultWeights, with(func(f *reach.Factors) { f.Distance = 0.3 }), 9.3},
		{"load 70 %", reach.DefaultWeights, with(func(f *reach.Factors) { f.Load, f.Busy = 0.3, 0.7 }), 8.6},
		{"load 80 % halves it", reach.DefaultWeights, with(func(f *reach.Factors) { f.Load, f.Busy = 0.2, 0.8 }), 4.2},
		{"only proportions of weights count", reach.Weights{40, 30, 20, 10}, with(func(f *reach.Factors) { f.Success = 0.5 }), 8},
		{"latency alone", reach.Weights{0, 1, 0, 0}, with(func(f *reach.Factors) { f.Latency = 0.25 }), 2.5},
	} {
		if got := c.weights.Score(c.f); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPathFactorsFollowTheirWindows(t *testing.T) {
	p := reach.NewPaths(reach.DefaultWeights)
	r := &envelope.Record{Agent: "a", Node: here, Distance: 1, Descriptor: &envelope.Descriptor{MaxConcurrentRequests: 10}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p.Outcome(here, "a", false, time.Millisecond, now)
	if f := p.Factors(r, now); f.Success != 0 || f.Latency != 0 {
		t.Errorf("one failure, never a success: %+v", f)
	}
	for range 3 {
		p.Outcome(here, "a", true, time.Second, now)
	}
	if f := p.Factors(r, now); f.Success != 0.75 || math.Abs(f.Latency-0.5) > 1e-6 {
		t.Errorf("3 of 4, a second each: %+v", f)
	}
	if f := p.Factors(r, now.Add(6*time.Minute)); f.Success != 1 {
		t.Errorf("six minutes later: %+v", f)
	}
	for range 10 {
		p.Outcome(here, "a", true, 0, now)
	}
	if f := p.Factors(r, now); f.Latency != 1 {
		t.Errorf("ten quick ones push the slow ones out: %+v", f)
	}
	p.Report(here, "a", 0.9)
	if f := p.Factors(r, now); f.Busy != 0.9 || math.Abs(f.Load-0.1) > 1e-9 {
		t.Errorf("reported load 90 %%: %+v", f)
	}
}

func spread(t *testing.T, w *world, n int, change func(i int, h *envelope.Header)) map[string]int {
	t.Helper()
	count := map[string]int{}
	for i := range n {
		who, err := w.call(w.request("stock.query", `{}`, func(h *envelope.Header) {
			if change != nil {
				change(i, h)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		count[who]++
	}
	return count
}

func TestWeightedRandomDrawsInProportion(t *testing.T) {
	w := newWorld(t, usual())
	for _, id := range []string{"a", "b", "c"} {
		w.attach(id, "stock.query", "1.0.0", "true")
	}
	for range 6000 { // a: score 6, and no call of this test changes that
		w.paths.Outcome(here, "a", false, 0, time.Now())
		w.paths.Outcome(here, "a", true, 0, time.Now())
	}
	count := spread(t, w, 3000, nil)
	share := float64(count["a"]) / 3000
	if want := 8. / 28; math.Abs(share-want) > 0.05 {
		t.Errorf("share of the one with score 8 beside two with 10: %.3f, want about %.3f", share, want)
	}
}

func TestTopNBoundsTheDraw(t *testing.T) {
	w := newWorld(t, reach.Routing{Mode: reach.WeightedRandom, TopN: 2})
	for i, id := range []string{"a", "b", "c", "d"} {
		w.attach(id, "stock.query", "1.0.0", "true")
		w.paths.Report(here, id, float64(i)*0.1)
	}
	count := spread(t, w, 400, nil)
	if count["c"]+count["d"] > 0 || count["a"] < 100 || count["b"] < 100 {
		t.Errorf("top 2 of 4: %v", count)
	}
}

func TestBestTakesTheFirst(t *testing.T) {
	w := newWorld(t, reach.Routing{Mode: reach.Best})
	for i, id := range []string{"a", "b", "c"} {
		w.attach(id, "stock.query", "1.0.0", "true")
		w.paths.Report(here, id, 0.6-float64(i)*0.3)
	}
	if count := spread(t, w, 50, nil); count["c"] != 50 {
		t.Errorf("best: %v", count)
	}
}

func TestRoundRobinTakesTurns(t *testing.T) {
	for _, agents := range []int{3, 100} {
		w := newWorld(t, reach.Routing{Mode: reach.RoundRobin})
		for i := range agents {
			w.attach(fmt.Sprintf("a-%03d", i), "stock.query", "1.0.0", "true")
		}
		count := spread(t, w, 3*agents, nil)
		if len(count) != agents {
			t.Fatalf("%d agents: %d of them were asked", agents, len(count))
		}
	}
}

func TestHashKeepsAConversationWithItsAgent(t *testing.T) {
	w := newWorld(t, reach.Routing{Mode: reach.ByHash, MaxRetry: 2, Retry: true})
	for i := range 50 {
		w.attach(fmt.Sprintf("a-%02d", i), "stock.query", "1.0.0", "true")
	}
	byConversation := func(i int, h *envelope.Header) { h.ConversationID = fmt.Sprint("talk-", i%20) }
	first := map[int]string{}
	for i := range 60 {
		who, err := w.call(w.request("stock.query", `{}`, func(h *envelope.Header) { byConversation(i, h) }))
		if err != nil {
			t.Fatal(err)
		}
		if i < 20 {
			first[i] = who
		} else if who != first[i%20] {
			t.Fatalf("talk-%d moved from %s to %s", i%20, first[i%20], who)
		}
	}
	different := map[string]bool{}
	for _, who := range first {
		different[who] = true
	}
	if len(different) < 10 {
		t.Errorf("20 conversations share %d of 50 agents", len(different))
	}
	w.directory.Remove(first[0])
	moved := 0
	for i := range 20 {
		who, _ := w.call(w.request("stock.query", `{}`, func(h *envelope.Header) { byConversation(i, h) }))
		if who != first[i] && first[i] != first[0] {
			moved++
		}
	}
	if moved > 0 {
		t.Errorf("%d conversations of agents that stayed have moved", moved)
	}
}

func TestSaturatedAgentsComeAfterIdleOnes(t *testing.T) {
	w := newWorld(t, usual())
	stuck := make(chan struct{})
	entered := make(chan struct{})
	busy := w.attach("busy", "stock.query", "1.0.0", "true", limit(1, 10))
	busy.act = func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
		close(entered)
		<-stuck
		return sink(a.reply(m, nil, nil))
	}
	done := make(chan error)
	go func() {
		_, err := w.call(w.request("stock.query", `{}`, nil))
		done <- err
	}()
	<-entered
	w.attach("idle", "stock.query", "1.0.0", "true")
	if count := spread(t, w, 50, nil); count["idle"] != 50 {
		t.Errorf("%v", count)
	}
	close(stuck)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestExplainShowsEveryCandidate(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("fine", "stock.query", "1.2.0", skuSchema)
	w.attach("away", "stock.query", "1.2.0", skuSchema, state(envelope.Unavailable))
	w.attach("old", "stock.query", "0.9.0", skuSchema)
	got, err := w.ingress.Explain(w.request("stock.query@^1", `{"sku":"x"}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Agent != "fine" || got[0].LeftOut != nil || got[0].Score != 10 {
		t.Fatalf("%+v", got)
	}
	for _, r := range got[1:] {
		if r.LeftOut == nil {
			t.Errorf("%s: no reason", r.Agent)
		}
	}
	ranked, err := w.ingress.Lookup(w.request("stock.query", ``, nil), 10)
	if err != nil || len(ranked) != 2 {
		t.Errorf("lookup: %v, %v", ranked, err)
	}
}

// The decision must cost the same however many agents there are: 100,000 of them, 1,000 on the capability.
func BenchmarkDecide(b *testing.B) {
	for _, agents := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			w := newWorld(b, usual())
			for i := range agents {
				name := "stock.query"
				if i >= 1000 {
					name = fmt.Sprintf("other.%d", i%997)
				}
				w.attach(fmt.Sprintf("agent-%06d", i), name, "1.0.0", "true")
			}
			m := w.request("stock.query", `{}`, nil)
			b.ReportAllocs()
			for b.Loop() {
				if err := w.ingress.Decide(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
