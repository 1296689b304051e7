package reach

import (
	"slices"

	"github.com/agent-reach/agent-reach/envelope"
)

// Ranked is a candidate with what its choice goes by.
type Ranked struct {
	envelope.Candidate
	Factors Factors
	Score   float64         // 0 to 10
	LeftOut *envelope.Error // why it may not be tried; nil: it may
	weight  uint64          // rendezvous weight, in mode hash
}

// choose puts the pool into the order in which it is tried: the mode picks the first, the rest follow by score. Those without a free place
// come after those with one, whatever the mode but hash.
func (w *way) choose() error {
	w.score()
	if w.in.Routing.Mode == ByHash && w.m.Header.ConversationID != "" {
		return nil // gathered in order
	}
	switch w.in.Routing.Mode {
	case RoundRobin:
		if !w.turned {
			w.rotate(int((w.in.turn.Add(1) - 1) % uint64(len(w.pool))))
		}
		w.putSaturatedLast()
	case Best, ByHash:
		w.sort()
		w.putSaturatedLast()
	default:
		w.sort()
		w.draw(min(w.putSaturatedLast(), max(w.in.Routing.TopN, 1)))
	}
	return nil
}

func (w *way) score() {
	for i := range w.pool {
		r := &w.pool[i]
		r.Factors = w.in.Paths.Factors(r.Record, w.began)
		r.Score = w.in.Paths.weights.Score(r.Factors)
	}
}

// sort orders by score, the highest first. It is stable: equals stay in the order of a list that was entered at random.
func (w *way) sort() {
	slices.SortStableFunc(w.pool, func(a, b Ranked) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
}

func (w *way) rotate(n int) {
	slices.Reverse(w.pool[:n])
	slices.Reverse(w.pool[n:])
	slices.Reverse(w.pool)
}

// putSaturatedLast keeps the order among those with a free place and among those without, and returns how many come first.
func (w *way) putSaturatedLast() (first int) {
	saturated := func(r *Ranked) bool { return r.Factors.Busy >= 1 }
	for i := range w.pool {
		if saturated(&w.pool[i]) {
			continue
		}
		r := w.pool[i]
		copy(w.pool[first+1:i+1], w.pool[first:i])
		w.pool[first] = r
		first++
	}
	if first == 0 {
		return len(w.pool)
	}
	return first
}

// draw moves one of the first n to the front, chosen with a chance in proportion to its score.
func (w *way) draw(n int) {
	var sum float64
	for i := range n {
		sum += w.pool[i].Score
	}
	at, x := 0, w.in.Random()*sum
	for ; at < n-1; at++ {
		if x -= w.pool[at].Score; x < 0 {
			break
		}
	}
	r := w.pool[at]
	copy(w.pool[1:at+1], w.pool[:at])
	w.pool[0] = r
}
