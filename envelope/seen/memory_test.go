package seen

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

var start = time.Date(2025, 6, 5, 6, 12, 30, 0, time.UTC)

func header(msgID string, at time.Time) *envelope.Header {
	return &envelope.Header{SourceAgent: "order-agent", MsgID: msgID, TTLSec: 60, Timestamp: envelope.Timestamp{Time: at}}
}

func want(t *testing.T, err error, code envelope.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused reports whether err is one of the two answers to a replay.
func refused(err error) bool {
	return errors.Is(err, envelope.Duplicate) || errors.Is(err, envelope.Expired)
}

// TestMillionDistinctIDs has a message every half millisecond, up to 25 s on its way, so that generations turn and the window
// shrinks all the time. Case 22: none may be refused, and every replay must be.
func TestMillionDistinctIDs(t *testing.T) {
	m := New(Config{})
	random := rand.New(rand.NewPCG(1, 2))
	now := start
	sent := make([]time.Time, million)
	floor := m.floor.Load()
	for i := range million {
		now = now.Add(500 * time.Microsecond)
		sent[i] = now.Add(-time.Duration(random.IntN(int(25 * time.Second))))
		if err := m.Accept(header(strconv.Itoa(i), sent[i]), now); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		old := random.IntN(i + 1)
		if err := m.Accept(header(strconv.Itoa(old), sent[old]), now); !refused(err) {
			t.Fatalf("message %d was accepted again after %d more: %v", old, i-old, err)
		}
	}
	st := m.Stats()
	if st.FalsePositives == 0 {
		t.Error("no filter ever erred: this test did not test the exact set")
	}
	if million > DefaultCapacity && m.floor.Load() == floor {
		t.Error("the window never shrank")
	}
	if st.IDs > DefaultCapacity+span*2000 {
		t.Errorf("%d ids are held", st.IDs)
	}
}

func TestMillionIDsWithOneTimestamp(t *testing.T) {
	m := New(Config{})
	h := header("", start)
	for i := range million {
		h.MsgID = strconv.Itoa(i)
		if err := m.Accept(h, start.Add(time.Second)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for i := 0; i < million; i += 7 {
		h.MsgID = strconv.Itoa(i)
		if err := m.Accept(h, start.Add(time.Minute)); !refused(err) {
			t.Fatalf("message %d was accepted again", i)
		}
	}
}

// TestFiltersAreSizedRight: at their fullest they send about one look-up in a hundred to the exact set in vain.
func TestFiltersAreSizedRight(t *testing.T) {
	s := newSegment(lastSegment)
	source := New(Config{})
	for i := 0; s.room > 0; i++ {
		k := source.id(header(strconv.Itoa(i), start))
		at := k.locations()
		s.add(k, &at)
	}
	const tries = 200_000
	wrong := 0
	for i := range tries {
		k := source.id(header("new"+strconv.Itoa(i), start))
		if at := k.locations(); s.maybe(&at) {
			wrong++
		}
	}
	if rate := float64(wrong) / tries; rate < 0.005 || rate > 0.015 {
		t.Errorf("false positives: %.4f, want about %.2f", rate, falsePositives)
	}
}

// TestReplayIsRefusedForEver replays one message every second while its generation ages and goes.
func TestReplayIsRefusedForEver(t *testing.T) {
	for _, ttl := range []int{1, 60, 300, 86400} {
		m := New(Config{Capacity: 10})
		h := header("m", start)
		h.TTLSec = ttl
		ok(t, m.Accept(h, start))
		for s := range 600 {
			now := start.Add(time.Duration(s) * time.Second)
			if err := m.Accept(h, now); !refused(err) {
				t.Fatalf("ttl %d: accepted again after %d s: %v", ttl, s, err)
			}
			ok(t, m.Accept(header("other"+strconv.Itoa(s), now), now))
		}
	}
}

func TestWindowWithoutPressure(t *testing.T) {
	m := New(Config{})
	h := header("m", start)
	h.TTLSec = 300
	ok(t, m.Accept(h, start.Add(-100*time.Second)))
	want(t, m.Accept(h, start.Add(longestWindow)), envelope.Duplicate)
	late := header("late", start)
	late.TTLSec = 300
	ok(t, m.Accept(late, start.Add(longestWindow)))
	ok(t, m.Accept(header("now", start.Add(longestWindow+2*span*time.Second)), start.Add(longestWindow+2*span*time.Second)))
	if st := m.Stats(); st.IDs != 1 || st.Generations != 1 {
		t.Errorf("what cannot come again is still held: %+v", st)
	}
}

func TestFutureTimestamps(t *testing.T) {
	m := New(Config{Capacity: 1})
	h := header("ahead", start.Add(envelope.ClockTolerance))
	ok(t, m.Accept(h, start))
	for s := 0; s < 420; s += 7 {
		now := start.Add(time.Duration(s) * time.Second)
		if err := m.Accept(h, now); !refused(err) {
			t.Fatalf("accepted again after %d s: %v", s, err)
		}
		ok(t, m.Accept(header(strconv.Itoa(s), now), now))
	}
	want(t, m.Accept(header("too far", start.Add(envelope.ClockTolerance+time.Millisecond)), start), envelope.ClockSkew)
}

// TestFloor: over capacity the oldest generations go, but none within MinWindow.
func TestFloor(t *testing.T) {
	m := New(Config{Capacity: 100, MinWindow: time.Minute})
	for i := range 600 { // 5 a second for 120 s
		now := start.Add(time.Duration(i) * 200 * time.Millisecond)
		ok(t, m.Accept(header(strconv.Itoa(i), now), now))
	}
	now := start.Add(2 * time.Minute)
	ok(t, m.Accept(header("within MinWindow", now.Add(-time.Minute)), now))
	err := m.Accept(header("never seen, but too old to tell", start), now)
	want(t, err, envelope.Expired)
	for _, word := range []string{"2m0s old", "remembers the last 1m", "NTP", "-120.0 s", "under load"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q lacks %q", err, word)
		}
	}
	if st := m.Stats(); st.IDs < 300 || st.IDs > 300+2*5*span || st.Window < time.Minute || st.Window > 90*time.Second {
		t.Errorf("%+v", st)
	}
}

func TestSince(t *testing.T) {
	m := New(Config{Since: start})
	want(t, m.Accept(header("before the start", start.Add(-time.Millisecond)), start), envelope.Expired)
	ok(t, m.Accept(header("at the start", start), start))
}

func TestHardLimit(t *testing.T) {
	m := New(Config{Capacity: 10, HardLimit: 20})
	for i := range 20 {
		ok(t, m.Accept(header(strconv.Itoa(i), start), start.Add(4*time.Second)))
	}
	err := m.Accept(header("more", start), start.Add(4*time.Second))
	want(t, err, envelope.Overloaded)
	if wait := envelope.AsError(err).RetryAfter; wait != 11*time.Second {
		t.Errorf("retry after %v, want until the next generation", wait)
	}
	want(t, m.Seen(header("more", start), start), envelope.Overloaded)
	want(t, m.Accept(header("7", start), start), envelope.Duplicate)
	m.Forget(header("7", start))
	ok(t, m.Accept(header("more", start), start))
	later := start.Add(time.Minute)
	ok(t, m.Accept(header("after the shrink", later), later))
}

func TestForget(t *testing.T) {
	m := New(Config{})
	h := header("m", start)
	m.Forget(h)
	ok(t, m.Accept(h, start))
	m.Forget(h)
	m.Forget(h)
	ok(t, m.Seen(h, start))
	ok(t, m.Accept(h, start))
	want(t, m.Accept(h, start), envelope.Duplicate)
	if n := m.Stats().IDs; n != 1 {
		t.Errorf("%d ids", n)
	}
}

// TestForgetAndAcceptInTurns does not fill filters: an agent that is overloaded for a minute costs no memory.
func TestForgetAndAcceptInTurns(t *testing.T) {
	m := New(Config{})
	for range 50_000 {
		ok(t, m.Accept(header("m", start), start))
		m.Forget(header("m", start))
	}
	if st := m.Stats(); st.Bytes > 4096 {
		t.Errorf("%+v", st)
	}
}

func TestSeenDoesNotMark(t *testing.T) {
	m := New(Config{})
	h := header("m", start)
	for range 3 {
		ok(t, m.Seen(h, start))
	}
	ok(t, m.Accept(h, start))
	want(t, m.Seen(h, start), envelope.Duplicate)
}

func TestWhatIsTheSameMessage(t *testing.T) {
	m := New(Config{})
	h := header("_b", start)
	h.SourceAgent = "a"
	ok(t, m.Accept(h, start))
	h.MsgID, h.SourceAgent = "b", "a_"
	ok(t, m.Accept(h, start))
	h.MsgID, h.SourceAgent = "_b", "a"
	h.Timestamp.Time = start.Add(20 * time.Second)
	want(t, m.Accept(h, start), envelope.Duplicate)
	h.Timestamp.Time = start.Add(-20 * time.Second)
	want(t, m.Accept(h, start), envelope.Duplicate)
	h.SourceAgent = "A"
	ok(t, m.Accept(h, start))
}

// TestClockStepsBack: a clock that was wrong for a while locks nobody out, and lets no replay in.
func TestClockStepsBack(t *testing.T) {
	m := New(Config{})
	ok(t, m.Accept(header("m", start), start))
	wrong := start.Add(time.Hour)
	ok(t, m.Accept(header("in an hour", wrong), wrong))
	now := start.Add(span * time.Second)
	ok(t, m.Accept(header("after the step", now), now))
	want(t, m.Accept(header("m", start), now), envelope.Expired)
}
