package seen

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Config bounds a Memory. The zero value is the default.
type Config struct {
	// Capacity is how many ids are held before the window shrinks; default 100 000. More: less is refused as expired under load,
	// at about 35 bytes an id.
	Capacity int
	// HardLimit is how many ids are held at most; default 1<<22. It bounds memory when more messages arrive within MinWindow.
	HardLimit int
	// MinWindow is how far back the memory covers in any case; default 30 s. More: clocks that are behind, and slow ways,
	// are borne under load, at the price of more ids.
	MinWindow time.Duration
	// Since refuses messages with an earlier timestamp: set to the start of the process, nothing that was accepted before it can be
	// accepted again. Zero: everything in the window is taken.
	Since time.Time
}

// Defaults of a Config.
const (
	DefaultCapacity  = 100_000
	DefaultHardLimit = 1 << 22
	DefaultMinWindow = 30 * time.Second
)

const shardCount = 16

// Memory remembers which (source, msg_id) were accepted, for as long as each could be admitted again. It is safe for concurrent use.
//
// Invariant: while a shard's lock is held, every id that was accepted into it and not forgotten, and whose timestamp is not
// below the floor, is in it.
type Memory struct {
	cfg   Config
	seeds [2]maphash.Seed

	floor     atomic.Int64 // Unix nanoseconds; only rises, and before ids are dropped
	total     atomic.Int64 // ids held or just being added
	turned    atomic.Int64 // the generation of now at the last sweep
	exhausted atomic.Int64 // no generation below this one is left to drop for room
	sweeping  sync.Mutex

	shards [shardCount]shard
}

// New makes an empty Memory.
func New(cfg Config) *Memory {
	cfg.Capacity = cmp.Or(cfg.Capacity, DefaultCapacity)
	cfg.HardLimit = cmp.Or(cfg.HardLimit, DefaultHardLimit)
	cfg.MinWindow = min(cmp.Or(cfg.MinWindow, DefaultMinWindow), longestWindow)
	m := &Memory{cfg: cfg, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	if !cfg.Since.IsZero() {
		m.floor.Store(cfg.Since.UnixNano())
	}
	return m
}

// Accept marks the message as seen. Of any number of calls for one source and msg_id, at once or one after the other,
// one succeeds, unless Forget comes between.
//
// Errors: Duplicate (it was accepted before), Expired (it could not be told, or CheckClock says so), ClockSkew,
// Overloaded (HardLimit; RetryAfter is set).
func (m *Memory) Accept(h *envelope.Header, now time.Time) error {
	k, at, err := m.open(h, now)
	if err != nil {
		return err
	}
	if err := m.accept(h, k, &at, now); err != nil {
		return err
	}
	if m.total.Load() > int64(m.cfg.Capacity) && m.exhausted.Load() != numberOf(now.Add(-m.cfg.MinWindow)) {
		m.sweep(now)
	}
	return nil
}

func (m *Memory) accept(h *envelope.Header, k id, at *locations, now time.Time) error {
	s := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := m.check(s, h, k, at, now); err != nil {
		return err
	}
	if m.total.Add(1) > int64(m.cfg.HardLimit) {
		m.total.Add(-1)
		return m.overloaded(now)
	}
	s.add(numberOf(h.Timestamp.Time), k, at)
	return nil
}

// Seen only looks: its error is what Accept would give now.
func (m *Memory) Seen(h *envelope.Header, now time.Time) error {
	k, at, err := m.open(h, now)
	if err != nil {
		return err
	}
	s := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := m.check(s, h, k, &at, now); err != nil {
		return err
	}
	if m.total.Load() >= int64(m.cfg.HardLimit) {
		return m.overloaded(now)
	}
	return nil
}

// Forget takes an acceptance back: the message was certainly not run. Only whoever accepted it may say so.
func (m *Memory) Forget(h *envelope.Header) {
	k := m.id(h)
	at := k.locations()
	s := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if seg := s.find(k, &at); seg != nil {
		delete(seg.ids, k)
		m.total.Add(-1)
	}
}

// open checks the clock, lets time pass for the memory, and computes what the look-ups need.
func (m *Memory) open(h *envelope.Header, now time.Time) (k id, at locations, err error) {
	if err := CheckClock(h, now); err != nil {
		return id{}, locations{}, err
	}
	if number := numberOf(now); m.turned.Load() != number && m.turned.Swap(number) != number {
		m.sweep(now)
	}
	k = m.id(h)
	return k, k.locations(), nil
}

func (m *Memory) check(s *shard, h *envelope.Header, k id, at *locations, now time.Time) error {
	if floor := m.floor.Load(); h.Timestamp.UnixNano() < floor {
		return m.belowFloor(h, now, time.Unix(0, floor))
	}
	if s.find(k, at) != nil {
		return envelope.Errorf(envelope.Duplicate, envelope.StepSeen, "msg_id %s of %s was accepted before", h.MsgID, h.SourceAgent).
			WithHint("every new message needs a msg_id of its own; a repeat is answered only while the first answer is kept")
	}
	return nil
}

func (m *Memory) belowFloor(h *envelope.Header, now, floor time.Time) error {
	return envelope.Errorf(envelope.Expired, envelope.StepSeen,
		"message is %v old, and this node can no longer tell whether it was accepted before: it remembers the last %v",
		seconds(now.Sub(h.Timestamp.Time)), seconds(now.Sub(floor))).
		WithHint("send it again with a new timestamp_utc; the node holds %d msg_ids, and remembers less under load. If the message "+
			"was just made, the sender's clock is behind: set it by NTP; measured offset %s", m.total.Load(), offset(now.Sub(h.Timestamp.Time)))
}

func (m *Memory) overloaded(now time.Time) error {
	wait := startOf(numberOf(now) + 1).Sub(now)
	return envelope.Errorf(envelope.Overloaded, envelope.StepSeen, "this node holds %d msg_ids, which is its limit", m.cfg.HardLimit).
		WithHint("more messages arrive than it can tell apart; send fewer, or through another node").WithRetryAfter(wait)
}

func (m *Memory) shard(k id) *shard { return &m.shards[k[15]%shardCount] }

// id hashes source \x00 msg_id; neither may contain \x00.
func (m *Memory) id(h *envelope.Header) (k id) {
	for i, seed := range m.seeds {
		var sum maphash.Hash
		sum.SetSeed(seed)
		sum.WriteString(h.SourceAgent)
		sum.WriteByte(0)
		sum.WriteString(h.MsgID)
		binary.LittleEndian.PutUint64(k[8*i:], sum.Sum64())
	}
	return k
}

// sweep drops what cannot be admitted any more, and then, oldest first, what is over Capacity and outside MinWindow.
func (m *Memory) sweep(now time.Time) {
	if !m.sweeping.TryLock() {
		return // somebody is at it
	}
	defer m.sweeping.Unlock()
	over := numberOf(now.Add(-longestWindow))
	spare := numberOf(now.Add(-m.cfg.MinWindow))
	counts := make(map[int64]int)
	for i := range m.shards {
		m.shards[i].countBelow(spare, counts)
	}
	left := int(m.total.Load())
	for _, number := range slices.Sorted(maps.Keys(counts)) {
		if number >= over && left <= m.cfg.Capacity {
			return
		}
		m.drop(number)
		left -= counts[number]
	}
	if left > m.cfg.Capacity {
		m.exhausted.Store(spare)
	}
}

// drop raises the floor above a generation, and then forgets it with all that are older: in this order, since a message
// that finds its id gone must find the floor above it.
func (m *Memory) drop(number int64) {
	m.raise(startOf(number + 1).UnixNano())
	for i := range m.shards {
		m.total.Add(-int64(m.shards[i].drop(number)))
	}
}

func (m *Memory) raise(floor int64) {
	for {
		old := m.floor.Load()
		if old >= floor || m.floor.CompareAndSwap(old, floor) {
			return
		}
	}
}
