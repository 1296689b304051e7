package sdk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// hold keeps the registration alive until the link ends or ctx does; in the latter case the agent leaves its node. The error says why the link
// is of no more use.
func (s *session) hold(ctx context.Context) error {
	err := s.keep(ctx)
	if ctx.Err() != nil {
		s.leave()
		return nil
	}
	s.agent.shift(func(l *linkState) { l.session = nil })
	s.agent.tasks.Go(s.linger)
	return err
}

func (s *session) keep(ctx context.Context) error {
	due := time.NewTimer(s.beatIn())
	defer due.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-s.ended:
			return s.link.Err()
		case <-s.link.Parting():
			return envelope.Errorf(envelope.Unreachable, envelope.StepLink, "node %s takes no new calls", s.home.url)
		case <-s.agent.renew:
			err = s.timed(ctx, s.register)
		case <-s.agent.beat:
			err = s.timed(ctx, s.heartbeat)
		case <-s.agent.soon:
			due.Reset(reportAfter)
		case <-due.C:
			err = s.timed(ctx, s.heartbeat)
			due.Reset(s.beatIn())
		}
		if err != nil && ctx.Err() == nil {
			s.agent.cfg.log.Warn("heartbeat failed", "id", s.agent.id, "node", s.home.url, "err", err)
		}
	}
}

// beatIn is the time to the next heartbeat: up to a tenth less than the interval, so that agents that started together drift apart.
func (s *session) beatIn() time.Duration {
	every := time.Duration(s.agent.cfg.heartbeat) * time.Second
	return every - rand.N(every/10+1)
}

func (s *session) timed(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	return do(ctx)
}

// pulse is the payload of a heartbeat.
type pulse struct {
	Load         float64   `json:"current_load"`
	Capabilities []string  `json:"capabilities"`
	Outcomes     []outcome `json:"outcomes,omitempty"`
}

// readyPause is the time between two questions whether the node has found the agent ready, at first; doubled each time, up to a second.
const readyPause = 10 * time.Millisecond

// Ready starts the agent if it is not running yet, and returns when its node has found it ready: from then on it gets calls.
//
// Errors: those of Run; Unreachable if ctx ended first.
func (a *Agent) Ready(ctx context.Context) error {
	for pause := readyPause; ; pause = min(2*pause, time.Second) {
		s, err := a.attached(ctx)
		if err != nil {
			return err
		}
		var said registration
		err = s.say(ctx, envelope.Heartbeat, &pulse{Load: a.load(), Capabilities: a.offered()}, &said)
		if err == nil && said.State == string(envelope.Available) {
			return nil
		}
		if !sleep(ctx, pause) {
			return ended(ctx, envelope.Errorf(envelope.Unreachable, envelope.StepRegister, "node %s has not found %s ready in time; it is %s", s.home.url, a.id, said.State))
		}
	}
}

// heartbeat reports load, what is on offer now, and how direct calls went. A node that has forgotten the agent hears its registration again.
func (s *session) heartbeat(ctx context.Context) error {
	outcomes, lost := s.agent.outcomes.take()
	if lost > 0 {
		s.agent.cfg.log.Info("some outcomes of direct calls are not reported; there were too many", "id", s.agent.id, "reason", fmt.Sprintf("%d beyond %d", lost, maxOutcomes))
	}
	var said registration
	err := s.say(ctx, envelope.Heartbeat, &pulse{s.agent.load(), s.agent.offered(), outcomes}, &said)
	if err != nil {
		s.agent.outcomes.giveBack(outcomes)
	}
	if errors.Is(err, envelope.UnknownAgent) {
		return s.register(ctx)
	}
	return err
}

// linger lets what still runs on a parting link end. A node that parts closes the link itself when nothing runs.
func (s *session) linger() {
	t := time.NewTimer(s.agent.cfg.drain)
	defer t.Stop()
	select {
	case <-s.ended:
	case <-t.C:
	case <-s.agent.quit:
	}
	s.cut()
}

// leave takes the agent off the node: no new calls, then the end of the running ones, then the link's.
func (s *session) leave() {
	a := s.agent
	ctx, cancel := context.WithTimeout(context.Background(), unregisterTimeout)
	defer cancel()
	var said registration
	if err := s.say(ctx, envelope.Unregister, struct{}{}, &said); err != nil {
		a.cfg.log.Warn("not unregistered; the node will notice by itself", "id", a.id, "node", s.home.url, "err", err)
	}
	a.drain()
	s.flush()
	s.cut()
}

// drain takes no more calls and waits until none runs, or the drain time is over.
func (a *Agent) drain() {
	a.drained.Do(func() {
		t := time.NewTimer(a.cfg.drain)
		defer t.Stop()
		select {
		case <-a.slots.close():
		case <-t.C:
			a.cfg.log.Warn("drain time is over; the running handlers are cancelled", "id", a.id)
		}
	})
}

const (
	flushTimeout = 2 * time.Second
	flushCheck   = 2 * time.Millisecond
)

// flush waits until the node has read the answers that handlers gave: closing a connection takes back what is still under way. The answer to a ping
// says that all before it was read.
func (s *session) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for s.link.Stats().OpenInbound > 0 && s.agent.slots.running() == 0 && sleep(ctx, flushCheck) {
	}
	if _, err := s.link.Ping(ctx); err != nil {
		s.agent.cfg.log.Debug("link ended before the farewell", "id", s.agent.id, "node", s.home.url, "err", err)
	}
}

// cut ends the link and waits for its handlers, whose contexts it cancels; not for ever.
func (s *session) cut() {
	s.link.Close(nil)
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-s.ended:
	case <-t.C:
		s.agent.cfg.log.Warn("a handler ignores that its context has ended; left behind", "id", s.agent.id, "node", s.home.url)
	}
}
