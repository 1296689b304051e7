package link

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// probe is a ping on its way.
type probe struct {
	token    uint64
	sent     time.Time
	trip     time.Duration // zero: the link ended first
	answered chan struct{}
}

// keep waits for the end of ctx or of the link, and meanwhile keeps the time.
func (l *Link) keep(ctx context.Context) {
	for {
		select {
		case <-l.dying:
			return
		case <-ctx.Done():
			l.failNow(context.Cause(ctx), true)
		case <-l.timer.C:
			l.tick(time.Now())
		}
	}
}

// arm makes the keeper look at the clock at the latest at that time. The caller holds mu. A timer is only ever set earlier: calls that end
// in time, as nearly all do, cost it nothing.
func (l *Link) arm(at time.Time) {
	if l.timerAt.IsZero() || at.Before(l.timerAt) {
		l.timerAt = at
		l.timer.Reset(time.Until(at))
	}
}

// tick does what is due, and arms the timer for what is due next.
func (l *Link) tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timerAt = time.Time{}
	if l.err != nil {
		return
	}
	if late(l.writing, now) {
		l.fail(l.stalled("a write to it has made no progress"), false)
		return
	}
	if l.beat != nil && late(l.beat.sent.Add(l.cfg.StallTimeout), now) {
		l.fail(l.stalled("it does not answer a ping"), true)
		return
	}
	l.heartbeat(now)
	for _, c := range l.dueCalls(now) {
		l.overdue(c, now)
	}
	l.rearm()
}

func (l *Link) stalled(what string) *envelope.Error {
	return unreachable("%s is stalled: %s for %v", l.peer.ID, what, l.cfg.StallTimeout)
}

// late reports whether the limit, if there is one, is reached.
func late(limit, now time.Time) bool { return !limit.IsZero() && !now.Before(limit) }

func (l *Link) heartbeat(now time.Time) {
	if now.Before(l.beatAt) {
		return
	}
	l.beatAt = now.Add(l.cfg.PingInterval)
	l.slim = true
	if l.beat == nil {
		l.beat = l.probe(now)
	}
}

// everyCall visits the open calls, those without a number too.
func (l *Link) everyCall(f func(*call)) {
	l.ready.each(func(c *call) {
		if c.number == 0 {
			f(c)
		}
	})
	for _, c := range l.calls {
		f(c)
	}
}

func (l *Link) dueCalls(now time.Time) (due []*call) {
	l.everyCall(func(c *call) {
		if late(c.due, now) || late(c.starving, now) {
			due = append(due, c)
		}
	})
	return due
}

// overdue ends a call whose deadline has passed, or whose reader has taken nothing for StallTimeout.
func (l *Link) overdue(c *call, now time.Time) {
	starved := !late(c.due, now)
	switch {
	case c.ours && starved:
		why := envelope.Errorf(envelope.Unreachable, envelope.StepLink, "%s took no byte of the rest of the message for %v; it certainly did not run", l.peer.ID, l.cfg.StallTimeout)
		l.cancel(c, why)
		l.finish(c, why)
	case c.ours && !c.handed:
		l.cancel(c, envelope.Errorf(envelope.Expired, envelope.StepLink, "the deadline passed on the way"))
		l.finish(c, l.notRun(context.Background()))
	case c.ours:
		l.cancel(c, envelope.Errorf(envelope.Timeout, envelope.StepLink, "the deadline passed"))
		l.finish(c, l.noAnswer())
	case starved:
		l.stop(c.inbound, envelope.Errorf(envelope.Timeout, envelope.StepLink, "%s took no byte of the answer for %v", l.peer.ID, l.cfg.StallTimeout))
	default:
		c.inbound.ctx.late = true
		l.stop(c.inbound, envelope.Errorf(envelope.Timeout, envelope.StepLink, "the deadline passed before %s had answered", l.cfg.ID))
	}
}

func (l *Link) rearm() {
	l.arm(l.beatAt)
	if l.beat != nil {
		l.arm(l.beat.sent.Add(l.cfg.StallTimeout))
	}
	if !l.writing.IsZero() {
		l.arm(l.writing)
	}
	l.everyCall(func(c *call) {
		if !c.due.IsZero() {
			l.arm(c.due)
		}
		if !c.starving.IsZero() {
			l.arm(c.starving)
		}
	})
}

// Ping measures the round trip to the peer.
//
// Errors: Unreachable if the link has ended; Timeout if ctx ended first.
func (l *Link) Ping(ctx context.Context) (time.Duration, error) {
	p, err := l.pingNow()
	if err != nil {
		return 0, err
	}
	select {
	case <-p.answered:
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.pings, p.token)
		l.mu.Unlock()
		return 0, envelope.Errorf(envelope.Timeout, envelope.StepLink, "%s did not answer a ping: %v", l.peer.ID, ctx.Err())
	}
	if p.trip == 0 {
		return 0, unreachable("the link to %s ended before the answer to a ping", l.peer.ID)
	}
	return p.trip, nil
}

func (l *Link) pingNow() (*probe, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, unreachable("the link to %s has ended: %v", l.peer.ID, l.err)
	}
	return l.probe(time.Now()), nil
}

// probe sends a ping. The caller holds mu.
func (l *Link) probe(now time.Time) *probe {
	l.pingSeq++
	p := &probe{token: l.pingSeq, sent: now, answered: make(chan struct{})}
	l.pings[p.token] = p
	l.say(ping, 0, 0, binary.BigEndian.AppendUint64(nil, p.token))
	return p
}

// pong takes the answer to a ping; one that was not asked for is ignored. The caller holds mu.
func (l *Link) pong(token uint64) {
	p := l.pings[token]
	if p == nil {
		return
	}
	delete(l.pings, token)
	p.trip = max(time.Since(p.sent), 1)
	close(p.answered)
	if l.beat == p {
		l.beat = nil
	}
}
