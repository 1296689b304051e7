package sdk

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	maxRankings = 1024             // targets whose candidates are remembered
	rankedFor   = 15 * time.Second // after that scores are stale
	ticketSpare = 2 * time.Second  // a ticket must live this much longer
	drawAmong   = 3                // candidates, in proportion to their scores
)

// ranking remembers the direct candidates of recent targets.
type ranking struct {
	mu      sync.Mutex
	targets map[string]*ranked
}

// ranked are the direct candidates for one target. None is an answer too: ask the node.
type ranked struct {
	known chan struct{} // closed when the rest is set
	until time.Time
	list  []*seat
	err   error
}

// seat is a candidate that is called direct. A node takes one outcome for each ticket.
type seat struct {
	Candidate
	told atomic.Bool // its ticket's outcome is on the way
}

// askDirect posts q to an agent itself. done is false where there is none to post to, or it was certainly not handed over: then the node is asked.
func (a *Agent) askDirect(ctx context.Context, q *question, c *Call) (done bool, err error) {
	target := c.Capability + " " + c.Agent + " " + c.Conversation
	list, err := a.directCandidates(ctx, target, c)
	if err != nil || len(list) == 0 {
		return false, err
	}
	for _, at := range order(list, c) {
		if err := q.seal(a); err != nil {
			return true, err
		}
		began := time.Now()
		err := a.post(ctx, q, &at.Candidate)
		a.report(at, time.Since(began), err)
		if blameless(err) {
			return true, err
		}
		a.direct.strike(target, at.Agent)
		if !elsewhere(err) {
			return true, outcomeOf(ctx, err)
		}
	}
	return false, nil
}

// blameless reports whether the agent answered as it should: with what it had to say, be it an error.
func blameless(err error) bool {
	return err == nil || errors.Is(err, envelope.AgentFailed) || errors.Is(err, errEnough)
}

// elsewhere reports whether err says that the request was certainly not run there, but may be by another agent or through the node.
func elsewhere(err error) bool {
	e := envelope.AsError(err)
	switch e.Code {
	case envelope.Unreachable, envelope.Overloaded, envelope.NoRoute:
		return true
	}
	return e.Step == envelope.StepTicket
}

// order is who is tried, at most as many as retries allow: the first drawn among the best in proportion to their scores, the others by rank. In a
// conversation the node's order stands.
func order(list []*seat, c *Call) []*seat {
	list = slices.Clone(list)
	if c.Conversation == "" {
		first := draw(list[:min(len(list), drawAmong)])
		chosen := list[first]
		copy(list[1:first+1], list[:first])
		list[0] = chosen
	}
	return list[:min(len(list), maxRetries+1)]
}

// draw picks a place in proportion to the scores there.
func draw(among []*seat) int {
	sum := 0.0
	for _, at := range among {
		sum += at.Score
	}
	mark := rand.Float64() * sum
	for i, at := range among {
		if mark -= at.Score; mark < 0 {
			return i
		}
	}
	return 0
}

// directCandidates looks up who can be called direct, at most every rankedFor. Of several that want to know the same, one asks.
func (a *Agent) directCandidates(ctx context.Context, target string, c *Call) ([]*seat, error) {
	r, fresh := a.direct.entry(target)
	if fresh {
		a.fill(ctx, r, c)
		if r.err != nil {
			a.direct.drop(target, r)
		}
		close(r.known)
	}
	select {
	case <-r.known:
		return r.list, r.err
	case <-ctx.Done():
		return nil, ended(ctx, envelope.Errorf(envelope.Expired, envelope.StepResolve, "the time was over before the look-up's answer"))
	}
}

func (a *Agent) fill(ctx context.Context, r *ranked, c *Call) {
	found, err := a.lookup(ctx, c)
	if err != nil {
		r.err = err
		return
	}
	r.until = time.Now().Add(rankedFor)
	offset := time.Duration(0)
	if h := a.home(); h != nil {
		offset = h.offset
	}
	for _, one := range found {
		ends := one.expiry().Add(-offset - ticketSpare)
		if ends.After(time.Now()) {
			r.list = append(r.list, &seat{Candidate: one})
			r.until = earliest(r.until, ends)
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// entry is the target's entry; fresh: the caller must fill it and close known.
func (r *ranking) entry(target string) (e *ranked, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e = r.targets[target]
	if e != nil && !e.stale() {
		return e, false
	}
	e = &ranked{known: make(chan struct{})}
	if r.targets == nil {
		r.targets = make(map[string]*ranked)
	}
	for other := range r.targets {
		if len(r.targets) < maxRankings {
			break
		}
		delete(r.targets, other)
	}
	r.targets[target] = e
	return e, true
}

func (e *ranked) stale() bool { return isClosed(e.known) && !time.Now().Before(e.until) }

func (r *ranking) drop(target string, e *ranked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.targets[target] == e {
		delete(r.targets, target)
	}
}

// strike takes an agent that did not take a call off the target's list, until the next look-up.
func (r *ranking) strike(target, agent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.targets[target]
	if e == nil || !isClosed(e.known) {
		return
	}
	without := &ranked{known: e.known, until: e.until}
	for _, at := range e.list {
		if at.Agent != agent {
			without.list = append(without.list, at)
		}
	}
	r.targets[target] = without
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
