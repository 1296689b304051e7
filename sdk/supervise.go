package sdk

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Back-off between tries: a random time up to backoffBase doubled with each try in a row, at most backoffMax; until the first success at most
// backoffFirst, since a caller may be waiting to hear that its node's address is wrong.
const (
	backoffBase  = 200 * time.Millisecond
	backoffFirst = 2 * time.Second
	backoffMax   = 15 * time.Second
	// steady is how long a link must have lasted for the back-off to start afresh.
	steady = 10 * time.Second
)

// supervise keeps the agent attached to one of its nodes until ctx ends or all nodes refuse it for good, and returns why it ended.
func (a *Agent) supervise(ctx context.Context) error {
	tries, refusals := 0, 0
	for i := 0; ; i++ {
		node := a.cfg.nodes[i%len(a.cfg.nodes)]
		began := time.Now()
		s, err := a.attach(ctx, node)
		if err == nil {
			refusals = 0
			err = s.hold(ctx)
		}
		if ctx.Err() != nil {
			return closed()
		}
		a.cfg.log.Warn("not attached", "id", a.id, "node", node, "err", err)
		if time.Since(began) >= steady {
			tries = 0
		}
		if a.permanent(err) {
			refusals++
		}
		if i%len(a.cfg.nodes) == len(a.cfg.nodes)-1 {
			if refusals == len(a.cfg.nodes) {
				return err
			}
			refusals = 0
			a.shift(func(l *linkState) { l.rounds++; l.last = err })
		}
		if !sleep(ctx, a.backoff(tries)) {
			return closed()
		}
		tries++
	}
}

// permanent reports whether trying again cannot help while nobody changes anything. A clock that was right once will be set right again.
func (a *Agent) permanent(err error) bool {
	l, _ := a.look()
	switch envelope.AsError(err).Code {
	case envelope.ClockSkew:
		return !l.ever
	case envelope.Unreachable, envelope.Timeout, envelope.Overloaded, envelope.Internal, envelope.NoRoute, envelope.Expired:
		return false
	}
	return true
}

func (a *Agent) backoff(tries int) time.Duration {
	limit := backoffMax
	if l, _ := a.look(); !l.ever {
		limit = backoffFirst
	}
	return jitter(min(backoffBase<<min(tries, 16), limit))
}

// jitter is a random time up to d.
func jitter(d time.Duration) time.Duration { return rand.N(d) + 1 }

// sleep waits for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
