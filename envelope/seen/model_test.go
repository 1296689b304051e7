package seen

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// model is a Memory without filters, parts or dropping: every accepted id with its timestamp.
type model map[string]time.Time

// expect is what Seen and Accept must answer, given where the memory's floor stands.
func (m model) expect(h *envelope.Header, now, floor time.Time, hardLimit int) envelope.Code {
	if err := CheckClock(h, now); err != nil {
		return envelope.AsError(err).Code
	}
	if h.Timestamp.Before(floor) {
		return envelope.Expired
	}
	if at, held := m[h.MsgID]; held && !at.Before(floor) {
		return envelope.Duplicate
	}
	if m.held(floor) >= hardLimit {
		return envelope.Overloaded
	}
	return ""
}

func (m model) held(floor time.Time) (n int) {
	for _, at := range m {
		if !at.Before(floor) {
			n++
		}
	}
	return n
}

func code(err error) envelope.Code {
	if err == nil {
		return ""
	}
	return envelope.AsError(err).Code
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(models) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { againstModel(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func againstModel(t *testing.T, random *rand.Rand) {
	cfg := Config{Capacity: 20 + random.IntN(100), HardLimit: 150 + random.IntN(100), MinWindow: time.Duration(10+random.IntN(60)) * time.Second}
	m, naive, now := New(cfg), model{}, start
	first := make(map[string]time.Time) // exact messages that were accepted and not forgotten since
	answers := make(map[envelope.Code]int)
	for range 4000 {
		now = now.Add(time.Duration(random.IntN(400)-20) * time.Millisecond) // also a little back
		h := header(fmt.Sprint("m", random.IntN(800)), now.Add(time.Duration(random.IntN(360)-220)*time.Second))
		if at, sent := first[h.MsgID]; sent && random.IntN(2) == 0 {
			h.Timestamp.Time = at // a replay, to the byte
		}
		h.TTLSec = 1 + random.IntN(400)
		seen := m.Seen(h, now)
		floor := time.Unix(0, m.floor.Load())
		expected := naive.expect(h, now, floor, cfg.HardLimit)
		if code(seen) != expected {
			t.Fatalf("Seen: %v, want %q", seen, expected)
		}
		if random.IntN(10) == 0 {
			m.Forget(h)
			if at, held := naive[h.MsgID]; held && !at.Before(floor) {
				delete(naive, h.MsgID)
				delete(first, h.MsgID)
			}
			continue
		}
		err := m.Accept(h, now)
		if code(err) != expected {
			t.Fatalf("Accept: %v, want %q", err, expected)
		}
		answers[expected]++
		if err == nil {
			if first[h.MsgID].Equal(h.Timestamp.Time) {
				t.Fatalf("%s of %v was accepted twice", h.MsgID, h.Timestamp)
			}
			naive[h.MsgID], first[h.MsgID] = h.Timestamp.Time, h.Timestamp.Time
		}
		if got, held := m.Stats().IDs, naive.held(time.Unix(0, m.floor.Load())); got != held {
			t.Fatalf("%d ids are held, want %d", got, held)
		}
	}
	for _, c := range []envelope.Code{"", envelope.Duplicate, envelope.Expired, envelope.ClockSkew} {
		if answers[c] == 0 {
			t.Errorf("%q never came up: %v", c, answers)
		}
	}
}

// TestConcurrentAccept has many at once accept the same ids while generations turn, the window shrinks and others forget:
// each id is accepted once.
func TestConcurrentAccept(t *testing.T) {
	const ids = 20_000
	m := New(Config{Capacity: 500, MinWindow: 10 * time.Second})
	accepted := make([]atomic.Int32, ids)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 0))
			for i := range ids {
				// 10 ms a message; every worker has its own order among neighbours, and replays of up to half a minute ago.
				n := max(0, i-random.IntN(100))
				if random.IntN(3) == 0 {
					n = max(0, i-random.IntN(3000))
				}
				at := start.Add(time.Duration(n) * 10 * time.Millisecond)
				now := start.Add(time.Duration(i) * 10 * time.Millisecond)
				if err := m.Accept(header(fmt.Sprint(n), at), now); err == nil {
					accepted[n].Add(1)
				} else if !refused(err) {
					t.Errorf("%d: %v", n, err)
				}
				m.Forget(header("nobody accepted this", at))
			}
		})
	}
	all.Wait()
	once := 0
	for n := range accepted {
		switch accepted[n].Load() {
		case 0:
		case 1:
			once++
		default:
			t.Fatalf("message %d was accepted %d times", n, accepted[n].Load())
		}
	}
	if once < ids/2 || m.Stats().IDs > 5000 {
		t.Errorf("%d of %d ids accepted, %d held", once, ids, m.Stats().IDs)
	}
}

// TestExactlyOneWins starts all at the same moment on the same id.
func TestExactlyOneWins(t *testing.T) {
	m := New(Config{})
	for round := range 500 {
		h := header(fmt.Sprint(round), start)
		var won atomic.Int32
		var ready, all sync.WaitGroup
		ready.Add(1)
		for range 8 {
			all.Go(func() {
				ready.Wait()
				if err := m.Accept(h, start); err == nil {
					won.Add(1)
				} else if !errors.Is(err, envelope.Duplicate) {
					t.Error(err)
				}
			})
		}
		ready.Done()
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d accepted message %d", won.Load(), round)
		}
	}
}
