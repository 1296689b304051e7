package sdk

import (
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// slots counts the requests that run, up to a limit, and tells when none does.
type slots struct {
	mu    sync.Mutex
	n     int
	limit int
	shut  bool          // no more are let in
	idle  chan struct{} // non-nil while somebody waits for n == 0
}

func newSlots(limit int) slots { return slots{limit: limit} }

// overloadedFor is what a caller is asked to wait when the limit is reached.
const overloadedFor = 200 * time.Millisecond

// take counts one more request in.
//
// Errors: Overloaded at the limit, Unreachable once the agent is leaving.
func (s *slots) take() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shut:
		return envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "the agent is leaving and takes no new calls")
	case s.n >= s.limit:
		return envelope.Errorf(envelope.Overloaded, envelope.StepDeliver, "the agent runs %d requests, its max_concurrent_requests", s.n).
			WithRetryAfter(overloadedFor)
	}
	s.n++
	return nil
}

func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	if s.n == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

func (s *slots) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// close lets no more in, and returns a channel that closes when the last has left.
func (s *slots) close() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	if s.n == 0 {
		left := make(chan struct{})
		close(left)
		return left
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle
}
