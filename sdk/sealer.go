package sdk

import (
	"sync"

	"github.com/agent-reach/agent-reach/envelope"
)

// sealer seals with one signature at a time. What arrives while one is made waits, and is sealed together by the next: idle, a message has its own
// signature at once; under load, up to MaxLeaves share one.
type sealer struct {
	key     envelope.PrivateKey
	mu      sync.Mutex
	signing bool
	waiting []*sealJob
}

type sealJob struct {
	e *envelope.Envelope
	// turn receives the batch that this job's goroutine must sign, or nil when another has sealed e.
	turn chan []*sealJob
}

func (s *sealer) seal(e *envelope.Envelope) {
	s.mu.Lock()
	if !s.signing {
		s.signing = true
		s.mu.Unlock()
		envelope.Sign(s.key, e)
		s.next()
		return
	}
	j := &sealJob{e, make(chan []*sealJob, 1)}
	s.waiting = append(s.waiting, j)
	s.mu.Unlock()
	if batch := <-j.turn; batch != nil {
		s.sign(batch)
		s.next()
	}
}

// sign seals the batch; its first job is the goroutine's own.
func (s *sealer) sign(batch []*sealJob) {
	es := make([]*envelope.Envelope, len(batch))
	for i, j := range batch {
		es[i] = j.e
	}
	envelope.Sign(s.key, es...)
	for _, j := range batch[1:] {
		j.turn <- nil
	}
}

// next hands the signing over to the first that waits.
func (s *sealer) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), envelope.MaxLeaves)
	if n == 0 {
		s.signing = false
		return
	}
	batch := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	if len(s.waiting) == 0 {
		s.waiting = nil
	}
	batch[0].turn <- batch
}
