package sdk

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Admission over HTTP: a message is admitted while timestamp - maxSkew ≤ now ≤ timestamp + min(ttl, maxAge) + maxSkew.
const (
	maxSkew = 120 * time.Second
	maxAge  = 300 * time.Second
)

// maxReplays bounds the ids remembered, about 40 bytes each. Beyond it the oldest second is forgotten, and messages of that second or older are
// refused: a forgotten id never means a second run.
const maxReplays = 200_000

// replays remembers which requests came over HTTP, by the second of their timestamps. Over a link, the node does.
type replays struct {
	mu      sync.Mutex
	seconds map[int64]map[replayID]struct{}
	n       int
	floor   int64 // the first second that may still be admitted
}

type replayID [16]byte

func replayOf(h *envelope.Header) (second int64, id replayID) {
	sum := sha256.Sum256([]byte(h.SourceAgent + " " + h.MsgID))
	return h.Timestamp.Unix(), replayID(sum[:])
}

// checkClock refuses what is not of now.
func checkClock(h *envelope.Header, now time.Time) error {
	age := now.Sub(h.Timestamp.Time)
	switch {
	case age < -maxSkew:
		return envelope.Errorf(envelope.ClockSkew, envelope.StepClock, "the message is of %v in the future", -age.Round(time.Millisecond)).
			WithHint("set the caller's clock, with NTP")
	case age > min(h.TTL(), maxAge)+maxSkew:
		return envelope.Errorf(envelope.Expired, envelope.StepClock, "the message is %v old, its ttl_sec %d", age.Round(time.Millisecond), h.TTLSec).
			WithHint("if it was just sent, set the caller's clock, with NTP")
	}
	return nil
}

// accept marks the message as run. Of several with the same id exactly one is accepted.
//
// Errors: Duplicate; Expired where the memory does not reach back so far.
func (r *replays) accept(h *envelope.Header, now time.Time) error {
	second, id := replayOf(h)
	r.mu.Lock()
	defer r.mu.Unlock()
	if second < r.floor {
		return envelope.Errorf(envelope.Expired, envelope.StepSeen, "the message is older than what this agent can remember under its load").
			WithHint("send it anew, with a new timestamp")
	}
	if _, again := r.seconds[second][id]; again {
		return envelope.Errorf(envelope.Duplicate, envelope.StepSeen, "msg_id %s of %s was run already", h.MsgID, h.SourceAgent)
	}
	r.add(second, id, now)
	return nil
}

func (r *replays) add(second int64, id replayID, now time.Time) {
	if r.seconds == nil {
		r.seconds = make(map[int64]map[replayID]struct{})
	}
	if r.seconds[second] == nil {
		r.seconds[second] = make(map[replayID]struct{})
		r.drop(now.Add(-maxAge - 2*maxSkew).Unix())
	}
	r.seconds[second][id] = struct{}{}
	r.n++
	for r.n > maxReplays {
		r.floor = r.oldest() + 1
		r.drop(r.floor)
	}
}

// drop forgets the seconds before limit.
func (r *replays) drop(limit int64) {
	for second, ids := range r.seconds {
		if second < limit {
			r.n -= len(ids)
			delete(r.seconds, second)
		}
	}
}

func (r *replays) oldest() int64 {
	first := int64(1<<63 - 1)
	for second := range r.seconds {
		first = min(first, second)
	}
	return first
}

// forget takes accept back, for a message that was certainly not run.
func (r *replays) forget(h *envelope.Header) {
	second, id := replayOf(h)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.seconds[second][id]; there {
		delete(r.seconds[second], id)
		r.n--
	}
}
