package seen

import (
	"encoding/binary"

	"github.com/bits-and-blooms/bloom/v3"
)

const (
	firstSegment = 256     // ids in a generation's first segment of a shard; each further one is twice as large
	lastSegment  = 1 << 16 // … up to this

	falsePositives = 0.01
	hashes         = 7 // what bloom.EstimateParameters gives for falsePositives, whatever the number of ids
)

// id is a message's source and msg_id under two keyed hashes. Two messages share one with probability 2⁻¹²⁸, and nobody outside
// the process can look for such a pair. Bytes, not two integers: a map of these takes a third less.
type id [16]byte

func (k *id) half(i int) uint64 { return binary.LittleEndian.Uint64(k[8*i:]) }

// locations are an id's places in any filter, before the modulo (Kirsch and Mitzenmacher: h1 + i·h2).
type locations [hashes]uint64

func (k id) locations() (at locations) {
	first, step := k.half(0), k.half(1)|1
	for i := range at {
		at[i] = first + uint64(i)*step
	}
	return at
}

// segment is a bounded part of a generation.
type segment struct {
	filter *bloom.BloomFilter
	ids    map[id]struct{}
	room   int // ids that may still be added before the filter answers "maybe" too often
}

func newSegment(size int) *segment {
	bits, _ := bloom.EstimateParameters(uint(size), falsePositives)
	return &segment{filter: bloom.New(bits, hashes), ids: make(map[id]struct{}), room: size}
}

// segmentSize is how many ids a generation's segment n is for.
func segmentSize(n int) int { return min(firstSegment<<min(n, 16), lastSegment) }

// maybe is false where s certainly does not hold the id.
func (s *segment) maybe(at *locations) bool { return s.filter.TestLocations(at[:]) }

func (s *segment) add(k id, at *locations) {
	bits, m := s.filter.BitSet(), uint64(s.filter.Cap())
	for _, l := range at {
		bits.Set(uint(l % m))
	}
	s.ids[k] = struct{}{}
	s.room--
}

// bytes is an estimate: the filter, and a table of 8-slot groups that are seven eighths full at most.
func (s *segment) bytes() int {
	slots := 8
	for slots*7/8 < len(s.ids) {
		slots *= 2
	}
	return int(s.filter.Cap())/8 + slots*slotBytes
}

const slotBytes = 17 + 1 // id, padding, control byte
