package registry

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

const (
	graceTime  = 5 * time.Second       // in which a new link takes over the old one's history
	drainCheck = 50 * time.Millisecond // between two looks at a draining agent
)

// leases are all entries, the one that is due first on top. An entry's due is never later than it must be looked at; a sign of life
// makes it too early, which costs one look when it comes.
type leases []*entry

func (l leases) Len() int           { return len(l) }
func (l leases) Less(i, j int) bool { return l[i].due.Before(l[j].due) }
func (l leases) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}
func (l *leases) Push(x any) {
	x.(*entry).index = len(*l)
	*l = append(*l, x.(*entry))
}
func (l *leases) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last], *l = nil, (*l)[:last]
	x.index = -1
	return x
}

// lease sees to it that e is looked at no later than its state demands. The caller holds mu.
func (r *Registry) lease(e *entry) {
	due := r.dueTime(e)
	switch {
	case e.index < 0:
		e.due = due
		heap.Push(&r.leases, e)
	case due.Before(e.due):
		e.due = due
		heap.Fix(&r.leases, e.index)
	default:
		return
	}
	if e.index == 0 {
		r.nudge()
	}
}

func (r *Registry) unlease(e *entry) {
	if e.index >= 0 {
		heap.Remove(&r.leases, e.index)
	}
}

// dueTime is the earliest moment at which something about e can change by itself.
func (r *Registry) dueTime(e *entry) time.Time {
	due := e.heard.Add(r.cfg.CapabilityTTL)
	if e.attached {
		due = time.Now().Add(r.cfg.PruneInterval) // has no end; the moments below count
	}
	for _, at := range [...]time.Time{e.probeAt, e.grace, r.silentAt(e), drainAt(e)} {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	return due
}

// silentAt is when e becomes unavailable if nothing is heard of it; zero: it is so, or is leaving.
func (r *Registry) silentAt(e *entry) time.Time {
	switch e.state {
	case envelope.Pending, envelope.Available, envelope.Suspect:
		return e.heard.Add(r.cfg.HeartbeatTimeout)
	}
	return time.Time{}
}

func drainAt(e *entry) time.Time {
	if e.state != envelope.Draining {
		return time.Time{}
	}
	return time.Now().Add(drainCheck)
}

// tick does all that is due and returns how long nothing will be.
func (r *Registry) tick(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := now.Add(r.cfg.PruneInterval)
	if at := r.sweep(now); !at.IsZero() && at.Before(next) {
		next = at
	}
	for len(r.leases) > 0 && !r.leases[0].due.After(now) {
		e := r.leases[0]
		r.advance(e, now)
		if e.state != envelope.Removed {
			e.due = r.dueTime(e)
			heap.Fix(&r.leases, e.index)
		}
	}
	if len(r.leases) > 0 && r.leases[0].due.Before(next) {
		next = r.leases[0].due
	}
	return max(next.Sub(now), 0)
}

// advance does what is due for e at now. The caller holds mu.
func (r *Registry) advance(e *entry, now time.Time) {
	silent := now.Sub(e.heard)
	if !e.attached && silent >= r.cfg.CapabilityTTL {
		r.remove(e, silence(silent))
		return
	}
	if running, _ := r.Home.Load(e.id); e.state == envelope.Draining && running == 0 {
		r.remove(e, e.reason)
		return
	}
	if at := r.silentAt(e); !at.IsZero() && !at.After(now) {
		r.fallSilent(e, silent)
	}
	if !e.grace.IsZero() && !e.grace.After(now) {
		e.grace = time.Time{}
		r.Paths.Forget(r.Node, e.id)
	}
	if !e.probeAt.IsZero() && !e.probeAt.After(now) {
		r.wantProbe(e)
	}
}

// silence is "silent for 91 s".
func silence(d time.Duration) string { return fmt.Sprintf("silent for %.0f s", d.Seconds()) }

// fallSilent makes e unavailable. What it registered last and could not prove yet is what counts when it comes back. The caller holds mu.
func (r *Registry) fallSilent(e *entry, silent time.Duration) {
	if e.next != nil {
		r.seat(e, e.next, envelope.Unavailable, silence(silent))
	} else {
		r.setState(e, envelope.Unavailable, silence(silent))
	}
	if !e.attached {
		e.probeAt = time.Time{}
	}
}

// LinkDown tells that the link of an agent has ended, and why. If the agent was reached over it, it is unavailable from now on.
func (r *Registry) LinkDown(agent string, l *link.Link, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries.Load(agent)
	if !ok || l == nil {
		return
	}
	if e.next != nil && e.next.link == l {
		r.discard(e.next)
		e.next = nil
	}
	if e.current.link != l {
		return
	}
	r.linkLost(e, why)
	if e.state != envelope.Removed {
		r.lease(e)
	}
}

func (r *Registry) linkLost(e *entry, why error) {
	reason := "link lost"
	if why != nil {
		reason += ": " + envelope.AsError(why).Text
	}
	switch {
	case e.state == envelope.Draining:
		r.remove(e, reason)
	case e.next != nil: // a new link is being probed
		r.seat(e, e.next, envelope.Pending, reason+"; its new link has not answered yet")
	default:
		r.Home.Detach(e.id)
		e.grace, e.probeAt = time.Now().Add(graceTime), time.Time{}
		r.setState(e, envelope.Unavailable, reason)
	}
}

// gone reports whether e is reached over a link that has ended.
func (e *entry) gone() bool { return e.current.link != nil && e.current.link.Err() != nil }
