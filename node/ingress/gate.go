package ingress

import (
	"sync"
	"sync/atomic"
)

// gate counts the calls that run and, once shut, lets none in. It takes no lock.
type gate struct {
	state atomic.Int64 // 2 × calls inside, +1 once shut
	once  *sync.Once
	empty chan struct{} // closed when it is shut and nobody is inside
}

func newGate() gate { return gate{once: new(sync.Once), empty: make(chan struct{})} }

// enter reports whether the gate was open; who entered must leave.
func (g *gate) enter() bool {
	if g.state.Add(2)&1 == 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-2) == 1 {
		g.once.Do(func() { close(g.empty) })
	}
}

// shut closes the gate; the channel is closed when all have left.
func (g *gate) shut() <-chan struct{} {
	if g.state.Or(1) == 0 {
		g.once.Do(func() { close(g.empty) })
	}
	return g.empty
}

// budget is a number of bytes that may be held at once.
type budget struct{ left atomic.Int64 }

// take reserves n bytes, all or none.
func (b *budget) take(n int) bool {
	if b.left.Add(-int64(n)) >= 0 {
		return true
	}
	b.give(n)
	return false
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }
