package reach

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// seat is where requests for one agent wait and run: at most Limit at once, at most MaxQueue waiting, the most urgent first and
// first come first served among equals.
type seat struct {
	name string
	path *Path

	mu      sync.Mutex
	Seat    // replaced by Attach
	running int
	waiting waiters
	arrived uint64
	gone    bool
}

// waiter is one request in the queue. granted gets nil when it may run, else why it may not; it never blocks the sender.
type waiter struct {
	priority int
	order    uint64
	index    int // in the heap; -1: no longer there
	granted  chan error
}

type waiters []*waiter

func (w waiters) Len() int { return len(w) }
func (w waiters) Less(i, j int) bool {
	if w[i].priority != w[j].priority {
		return w[i].priority < w[j].priority
	}
	return w[i].order < w[j].order
}
func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}
func (w *waiters) Push(x any) {
	x.(*waiter).index = len(*w)
	*w = append(*w, x.(*waiter))
}
func (w *waiters) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last], *w = nil, (*w)[:last]
	x.index = -1
	return x
}

// enter waits for a place to run and returns the seat's agent and key as of then. Who entered must leave.
//
// Errors: Overloaded when the queue is full; Loop when only this call's own ancestors could make room; Expired when ctx ended first;
// Unreachable when the agent left. In each case nothing was handed over.
func (s *seat) enter(ctx context.Context, m *Message) (Seat, error) {
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return Seat{}, s.left()
	}
	if s.running < s.Limit {
		s.running++
		s.path.busy.Add(1)
		defer s.mu.Unlock()
		return s.Seat, nil
	}
	w, err := s.join(m)
	s.mu.Unlock()
	if err != nil {
		return Seat{}, err
	}
	return s.wait(ctx, w)
}

func (s *seat) join(m *Message) (*waiter, error) {
	if onBehalfOf(&m.Header, s.name) {
		return nil, envelope.Errorf(envelope.Loop, envelope.StepQueue, "%s is waiting for this very call (chain %v, then %s) and has no free place",
			s.name, m.Header.Chain, m.Header.SourceAgent).WithHint("break the circle, or raise max_concurrent_requests of %s", s.name)
	}
	if len(s.waiting) >= s.MaxQueue {
		return nil, envelope.Errorf(envelope.Overloaded, envelope.StepQueue, "%s runs %d and has %d waiting, its limits", s.name, s.running, len(s.waiting)).
			WithRetryAfter(s.drainTime()).
			WithHint("wait and try again; replicas of the capability, or a higher max_concurrent_requests of %s, would take more at once", s.name)
	}
	s.arrived++
	w := &waiter{priority: m.Header.Priority, order: s.arrived, granted: make(chan error, 1)}
	heap.Push(&s.waiting, w)
	s.path.busy.Add(1)
	return w, nil
}

// onBehalfOf reports whether agent is among those that wait for this call. A source with an empty chain is not: it asks for itself.
func onBehalfOf(h *envelope.Header, agent string) bool {
	for _, id := range h.Chain {
		if id == agent {
			return true
		}
	}
	return len(h.Chain) > 0 && h.SourceAgent == agent
}

// drainTime estimates when a place in the queue will be free: mean duration × waves still to run, 1 s to 60 s.
func (s *seat) drainTime() time.Duration {
	mean, _ := s.path.mean()
	waves := 1 + len(s.waiting)/max(s.Limit, 1)
	return min(max(mean*time.Duration(waves), time.Second), time.Minute)
}

func (s *seat) wait(ctx context.Context, w *waiter) (Seat, error) {
	var err error
	select {
	case err = <-w.granted:
	case <-ctx.Done():
		if s.withdraw(w) {
			return Seat{}, waitedTooLong(ctx, s.name)
		}
		err = <-w.granted // granted at the same moment: the place is ours
	}
	if err != nil {
		return Seat{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Seat, nil
}

func waitedTooLong(ctx context.Context, agent string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return envelope.Errorf(envelope.Expired, envelope.StepQueue, "its time ran out while it waited for %s; it was not handed over", agent).
			WithHint("raise ttl_sec, or add replicas of the capability")
	}
	return envelope.Errorf(envelope.Expired, envelope.StepQueue, "given up by the caller while it waited for %s; it was not handed over", agent)
}

// withdraw takes w out of the queue; false: it was granted or refused already.
func (s *seat) withdraw(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.index < 0 {
		return false
	}
	heap.Remove(&s.waiting, w.index)
	s.path.busy.Add(-1)
	return true
}

func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.path.busy.Add(-1)
	s.grant()
}

// grant lets the most urgent ones run while there is room.
func (s *seat) grant() {
	for s.running < s.Limit && len(s.waiting) > 0 {
		s.running++
		heap.Pop(&s.waiting).(*waiter).granted <- nil
	}
}

func (s *seat) replace(next Seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Seat = next
	s.grant()
}

// close ends the wait of everybody in the queue. What runs, runs on.
func (s *seat) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	for len(s.waiting) > 0 {
		s.path.busy.Add(-1)
		heap.Pop(&s.waiting).(*waiter).granted <- s.left()
	}
}

func (s *seat) left() error {
	return envelope.Errorf(envelope.Unreachable, envelope.StepQueue, "%s is no longer attached here", s.name)
}

func (s *seat) load() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, len(s.waiting)
}
