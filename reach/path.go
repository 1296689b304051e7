package reach

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	bucketWidth = 30 * time.Second
	buckets     = 10 // 5 minutes
	latencies   = 10 // calls
)

// Path is what this node knows of one way to an agent, through its home node: how its calls went, how long they took, how much runs
// on it. All fields are atomic: reading them takes no lock.
type Path struct {
	reported atomic.Uint64            // float64 bits: load the agent reports, as a share of its limit
	busy     atomic.Int64             // calls running and waiting
	outcomes [buckets]atomic.Uint64   // bucket number (32 bits) | succeeded (16) | failed (16)
	took     [latencies]atomic.Uint32 // the last successes, µs + 1; 0: none yet
	next     atomic.Uint32            // where in took the next one goes
}

// Paths holds a Path for every (home node, agent) that was ever asked for, until it is forgotten.
type Paths struct {
	weights Weights
	m       *xsync.Map[pathKey, *Path]
}

type pathKey struct{ node, agent string }

// NewPaths makes an empty table; its scores are weighted by w.
func NewPaths(w Weights) *Paths { return &Paths{w, xsync.NewMap[pathKey, *Path]()} }

func (p *Paths) of(node, agent string) *Path {
	if path, ok := p.m.Load(pathKey{node, agent}); ok {
		return path
	}
	path, _ := p.m.LoadOrStore(pathKey{node, agent}, &Path{})
	return path
}

// Forget drops what is known of the path.
func (p *Paths) Forget(node, agent string) { p.m.Delete(pathKey{node, agent}) }

// Report takes what the agent says of its load: running and queued requests as a share of its limit, 0 or more.
func (p *Paths) Report(node, agent string, load float64) {
	p.of(node, agent).reported.Store(math.Float64bits(load))
}

// Outcome counts one call. latency matters for successes only: a failure never counts as fast. A negative one is none: the path did its
// work, but how fast the agent declined says nothing.
func (p *Paths) Outcome(node, agent string, ok bool, latency time.Duration, now time.Time) {
	p.of(node, agent).outcome(ok, latency, now)
}

// Score is the path's score, 0 to 10, as of now.
func (p *Paths) Score(r *envelope.Record, now time.Time) float64 {
	return p.weights.Score(p.Factors(r, now))
}

// Factors are the four numbers that the score is made of, and how busy the agent is.
func (p *Paths) Factors(r *envelope.Record, now time.Time) Factors {
	path, ok := p.m.Load(pathKey{r.Node, r.Agent})
	if !ok {
		return Factors{Success: 1, Latency: 1, Load: 1, Distance: r.Distance}
	}
	return path.factors(r, now)
}

func (p *Path) outcome(ok bool, latency time.Duration, now time.Time) {
	if ok && latency >= 0 {
		i := (p.next.Add(1) - 1) % latencies
		p.took[i].Store(uint32(min(latency.Microseconds(), math.MaxUint32-1)) + 1)
	}
	number := uint64(now.UnixNano()/int64(bucketWidth)) & math.MaxUint32
	slot := &p.outcomes[number%buckets]
	for {
		old := slot.Load()
		if slot.CompareAndSwap(old, count(old, number, ok)) {
			return
		}
	}
}

// count adds one outcome to a bucket's word, starting anew when the word is of an older bucket. Full halves stay full.
func count(word, number uint64, ok bool) uint64 {
	if word>>32 != number {
		word = number << 32
	}
	shift := 0
	if ok {
		shift = 16
	}
	if word>>shift&math.MaxUint16 == math.MaxUint16 {
		return word
	}
	return word + 1<<shift
}

// tally adds up the outcomes of the last five minutes.
func (p *Path) tally(now time.Time) (succeeded, failed uint64) {
	number := uint64(now.UnixNano()/int64(bucketWidth)) & math.MaxUint32
	for i := range p.outcomes {
		word := p.outcomes[i].Load()
		if number-word>>32 < buckets {
			succeeded += word >> 16 & math.MaxUint16
			failed += word & math.MaxUint16
		}
	}
	return succeeded, failed
}

// mean is the mean duration of the last successes; ok is false where there are none.
func (p *Path) mean() (mean time.Duration, ok bool) {
	var sum, n uint64
	for i := range p.took {
		if us := p.took[i].Load(); us != 0 {
			sum += uint64(us - 1)
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return time.Duration(sum/n) * time.Microsecond, true
}

func (p *Path) factors(r *envelope.Record, now time.Time) Factors {
	f := Factors{Success: 1, Latency: 1, Distance: r.Distance}
	succeeded, failed := p.tally(now)
	if total := succeeded + failed; total > 0 {
		f.Success = float64(succeeded) / float64(total)
	}
	if mean, ok := p.mean(); ok {
		f.Latency = latencyFactor(mean)
	} else if failed > 0 {
		f.Latency = 0
	} else if succeeded > 0 {
		f.Latency = neverMeasured
	}
	f.Busy = max(math.Float64frombits(p.reported.Load()), p.share(r))
	f.Load = 1 - min(f.Busy, 1)
	return f
}

// share is what this node has running on and waiting for the agent, as a share of its limit.
func (p *Path) share(r *envelope.Record) float64 {
	return float64(p.busy.Load()) / float64(max(r.Descriptor.MaxConcurrentRequests, 1))
}
