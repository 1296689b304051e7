package seen

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// span is how many seconds of timestamps make a generation.
const span = 15

// numberOf is the generation of a moment; numbers grow with time.
func numberOf(t time.Time) int64 {
	s := t.Unix()
	if s < 0 {
		s -= span - 1 // division rounds towards zero
	}
	return s / span
}

// startOf is the first moment of a generation.
func startOf(number int64) time.Time { return time.Unix(number*span, 0) }

// generation holds a shard's ids whose timestamps lie in the same span.
type generation struct {
	number   int64
	segments []*segment
}

func (g *generation) count() (n int) {
	for _, s := range g.segments {
		n += len(s.ids)
	}
	return n
}

// add puts k into a segment whose filter has its bits already, so that Accept and Forget in turns fill no filter; else into the last.
func (g *generation) add(k id, at *locations) {
	for _, s := range g.segments {
		if s.maybe(at) {
			s.ids[k] = struct{}{}
			return
		}
	}
	n := len(g.segments)
	if n == 0 || g.segments[n-1].room == 0 {
		g.segments = append(g.segments, newSegment(segmentSize(n)))
	}
	g.segments[len(g.segments)-1].add(k, at)
}

// shard is one part of the ids, by hash, with a lock of its own.
type shard struct {
	mu             sync.Mutex
	generations    []*generation // by number
	falsePositives uint64
}

// find is the segment that holds k, nil if none does. The newest generation comes first: most duplicates are quick.
func (s *shard) find(k id, at *locations) *segment {
	for i := len(s.generations) - 1; i >= 0; i-- {
		for _, seg := range s.generations[i].segments {
			if !seg.maybe(at) {
				continue
			}
			if _, held := seg.ids[k]; held {
				return seg
			}
			s.falsePositives++
		}
	}
	return nil
}

func (s *shard) add(number int64, k id, at *locations) {
	i, found := slices.BinarySearchFunc(s.generations, number, byNumber)
	if !found {
		s.generations = slices.Insert(s.generations, i, &generation{number: number})
	}
	s.generations[i].add(k, at)
}

// drop forgets the generations up to number and says how many ids they held. The floor must have risen before.
func (s *shard) drop(number int64) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.generations, number+1, byNumber)
	for _, g := range s.generations[:i] {
		dropped += g.count()
	}
	s.generations = slices.Delete(s.generations, 0, i)
	return dropped
}

// countBelow adds the sizes of the generations below number to counts.
func (s *shard) countBelow(number int64, counts map[int64]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.generations {
		if g.number < number {
			counts[g.number] += g.count()
		}
	}
}

func byNumber(g *generation, number int64) int { return cmp.Compare(g.number, number) }
