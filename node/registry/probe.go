package registry

import (
	"context"
	"errors"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	maxProbers    = 256 // probes at once
	probeTimeout  = 5 * time.Second
	firstRetry    = 100 * time.Millisecond // of a pending agent, whose server may be just starting
	suspectRetry  = time.Second
	maxRetry      = 30 * time.Second
	suspectAfter  = 3 // calls failed in a row
	registerGrace = time.Second
)

// wantProbe puts e into the queue of those to be probed, once. The caller holds mu.
func (r *Registry) wantProbe(e *entry) {
	e.probeAt = time.Time{}
	if e.queued || e.probing != nil || e.candidate() == nil {
		return
	}
	e.queued = true
	r.queue = append(r.queue, e)
	r.nudge()
}

// candidate is the registration to be probed; nil: there is nothing that could answer.
func (e *entry) candidate() *registration {
	switch {
	case e.next != nil:
		return e.next
	case e.state == envelope.Draining || e.state == envelope.Removed || e.current.agent == nil || e.gone():
		return nil
	}
	return e.current
}

// startProbers is how many more goroutines are to empty the queue.
func (r *Registry) startProbers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), maxProbers-r.probers)
	r.probers += n
	return n
}

// probeAll probes what is in the queue until it is empty.
func (r *Registry) probeAll(ctx context.Context) {
	for {
		e, g := r.nextProbe(ctx)
		if e == nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, probeTimeout)
		err := g.agent.Probe(within)
		cancel()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		r.probed(e, g, err)
	}
}

func (r *Registry) nextProbe(ctx context.Context) (*entry, *registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && ctx.Err() == nil {
		e := r.queue[0]
		r.queue[0], r.queue = nil, r.queue[1:]
		e.queued = false
		if g := e.candidate(); g != nil {
			e.probing = g
			return e, g
		}
	}
	r.probers--
	return nil, nil
}

// probed takes the result of a probe.
func (r *Registry) probed(e *entry, g *registration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer g.prove()
	e.probing = nil
	switch {
	case errors.Is(err, context.Canceled) || e.state == envelope.Removed:
		return
	case g == e.next && err == nil:
		r.seat(e, g, envelope.Available, "")
	case g == e.next:
		r.seat(e, g, envelope.Pending, "the probe failed: "+why(err))
	}
	if g == e.current {
		r.judge(e, err)
	}
	if g != e.current || e.next != nil { // something newer came meanwhile
		r.wantProbe(e)
	}
	r.lease(e)
}

// judge draws the conclusion from a probe of the entry's current registration. The caller holds mu.
func (r *Registry) judge(e *entry, err error) {
	now := time.Now()
	switch {
	case e.state == envelope.Draining, e.state == envelope.Unavailable && !e.attached: // a silent agent speaks first
	case errors.Is(err, envelope.Overloaded): // busy with calls, which will show
		e.probeAt = now.Add(suspectRetry)
		if e.attached {
			e.heard = now
		}
	case err != nil:
		r.failedProbe(e, err, now)
	default:
		r.answeredProbe(e, now)
	}
}

func (r *Registry) answeredProbe(e *entry, now time.Time) {
	if e.state != envelope.Suspect { // a suspect agent answered probes before, and yet failed
		e.setBackoff(0)
	}
	if e.attached {
		e.heard, e.probeAt = now, now.Add(e.current.descriptor.HeartbeatInterval())
	}
	e.failures.Store(0)
	r.setState(e, envelope.Available, "")
}

func (r *Registry) failedProbe(e *entry, err error, now time.Time) {
	state := e.state
	if state == envelope.Available {
		state = envelope.Suspect
	}
	if state != envelope.Unavailable { // which says since when
		r.setState(e, state, "the probe failed: "+why(err))
	}
	e.probeAt = now.Add(e.wait())
}

// wait is the time until the next probe of an agent that failed: twice the last one.
func (e *entry) wait() time.Duration {
	first := suspectRetry
	if e.state == envelope.Pending {
		first = firstRetry
	}
	e.setBackoff(min(max(2*e.backoff, first), maxRetry))
	return e.backoff
}

func (e *entry) setBackoff(d time.Duration) {
	e.backoff = d
	e.shaky.Store(d > 0)
}

// why is the text of an error, without its code and step.
func why(err error) string { return envelope.AsError(err).Text }

// Outcome tells how a call of the agent ended: failed means that the agent did not do its part. Three failures in a row make it suspect;
// an answered call clears it.
func (r *Registry) Outcome(agent string, failed bool) {
	e, ok := r.entries.Load(agent)
	if !ok {
		return
	}
	switch {
	case failed:
		if e.failures.Add(1) == suspectAfter {
			r.suspect(e)
		}
	case e.failures.Load() > 0 || e.shaky.Load():
		e.failures.Store(0)
		r.clear(e)
	}
}

func (r *Registry) suspect(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.state != envelope.Available {
		return
	}
	r.setState(e, envelope.Suspect, "3 calls in a row failed")
	e.probeAt = time.Now().Add(e.wait())
	r.lease(e)
}

func (r *Registry) clear(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.setBackoff(0)
	if e.state == envelope.Suspect {
		r.setState(e, envelope.Available, "")
		e.probeAt = time.Time{}
		if e.attached {
			e.probeAt = time.Now().Add(e.current.descriptor.HeartbeatInterval())
		}
		r.lease(e)
	}
}

// prove tells that the first probe of g has ended.
func (g *registration) prove() { g.once.Do(func() { close(g.proven) }) }

// await gives the first probe of g a moment, so that whoever registered is told where it stands.
func (g *registration) await(ctx context.Context) {
	timer := time.NewTimer(registerGrace)
	defer timer.Stop()
	select {
	case <-g.proven:
	case <-timer.C:
	case <-ctx.Done():
	}
}
