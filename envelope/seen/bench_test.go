package seen

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// BenchmarkAccept takes new ids at 10 000 a second of the memory's time, so that generations turn and the window shrinks.
func BenchmarkAccept(b *testing.B) {
	m := New(Config{})
	now := start
	h := header("", now)
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = "8f2e9c1a4b7d" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		now = now.Add(100 * time.Microsecond)
		h.MsgID, h.Timestamp.Time = ids[i], now
		if err := m.Accept(h, now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAcceptFull does so when the 100 000 ids are spread over the whole window: the most generations to look through.
func BenchmarkAcceptFull(b *testing.B) {
	m, now := filled(b, DefaultCapacity, longestWindow)
	h := header("", now)
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = "new" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		h.MsgID = ids[i]
		if err := m.Accept(h, now); err != nil {
			b.Fatal(err)
		}
		m.Forget(h)
	}
}

func BenchmarkDuplicate(b *testing.B) {
	m, now := filled(b, DefaultCapacity, longestWindow)
	h := header("m0", now.Add(-time.Minute))
	m.Accept(h, now)
	b.ReportAllocs()
	for b.Loop() {
		if m.Seen(h, now) == nil {
			b.Fatal("not seen")
		}
	}
}

func BenchmarkAcceptParallel(b *testing.B) {
	m := New(Config{HardLimit: 1 << 30})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		h := header("", start)
		prefix := strconv.Itoa(int(time.Now().UnixNano()))
		for i := 0; pb.Next(); i++ {
			h.MsgID = prefix + strconv.Itoa(i)
			if err := m.Accept(h, start); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkMemory100k(b *testing.B) { benchmarkMemory(b, 100_000) }
func BenchmarkMemory1M(b *testing.B)   { benchmarkMemory(b, 1_000_000) }

// benchmarkMemory measures what ids spread over the whole window cost in bytes each, filters and all.
func benchmarkMemory(b *testing.B, n int) {
	for b.Loop() {
		before := heap()
		m := New(Config{Capacity: 2 * n})
		fill(b, m, n, longestWindow)
		b.ReportMetric(float64(heap()-before)/float64(n), "bytes/id")
		b.ReportMetric(float64(m.Stats().Bytes)/float64(n), "estimated-bytes/id")
		runtime.KeepAlive(m)
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func filled(b *testing.B, n int, over time.Duration) (*Memory, time.Time) {
	m := New(Config{Capacity: 2 * n})
	return m, fill(b, m, n, over)
}

// fill accepts n ids whose timestamps are spread evenly over a time, and returns the last.
func fill(b testing.TB, m *Memory, n int, over time.Duration) time.Time {
	h := header("", start)
	for i := range n {
		now := start.Add(over * time.Duration(i) / time.Duration(n))
		h.MsgID, h.Timestamp = "fill"+strconv.Itoa(i), envelope.Timestamp{Time: now}
		if err := m.Accept(h, now); err != nil {
			b.Fatal(err)
		}
	}
	return start.Add(over)
}
