package link

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Inbound is a call that the peer asks, in the hands of its Handler. It must not be used after the handler has returned.
type Inbound struct {
	Envelope *envelope.Envelope
	Hop      Hop

	link   *Link
	call   call
	ctx    callContext
	cancel context.CancelCauseFunc // nil: the handler has not started

	sealed   bool // nothing more may be sent: SendLast was called or the handler has returned
	said     bool // END or an end frame was written
	returned bool
	stopped  *envelope.Error // why stop ended it before its handler had
	ending   bool            // an end frame is to follow what is on its way out
	endBody  []byte
}

// callContext is the handler's context: cancelled by the link, which keeps the time for all its calls with one timer.
type callContext struct {
	context.Context
	deadline time.Time
	late     bool // set before the context is cancelled, if the deadline is the cause
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *callContext) Err() error {
	err := c.Context.Err()
	if err != nil && c.late {
		return context.DeadlineExceeded
	}
	return err
}

// Send sends one part of the answer. It returns when the part has its place in the call's queue of one, and so waits until the part
// before is on its way, which takes credit from the reader. e is kept, not copied.
//
// Errors: TooLarge; the cause of the handler's context if the call has ended; Timeout if ctx ended first.
func (in *Inbound) Send(ctx context.Context, e *envelope.Envelope) error {
	return in.send(ctx, e, false)
}

// SendLast is Send, and says in the same frame that this was all.
func (in *Inbound) SendLast(ctx context.Context, e *envelope.Envelope) error {
	return in.send(ctx, e, true)
}

func (in *Inbound) send(ctx context.Context, e *envelope.Envelope, final bool) error {
	l := in.link
	if size := e.BinarySize(); size > l.limits.message {
		return envelope.Errorf(envelope.TooLarge, envelope.StepLink, "answer is %d bytes; %s takes %d", size, l.peer.ID, l.limits.message)
	}
	out := newOutgoing(e, final)
	for {
		wait, err := in.enqueue(out)
		if wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-in.ctx.Done():
		case <-ctx.Done():
			if in.ctx.Err() != nil {
				continue // the call's end is the cause
			}
			return envelope.Errorf(envelope.Timeout, envelope.StepLink, "gave up waiting until %s reads: %v", l.peer.ID, ctx.Err())
		}
	}
}

// enqueue gives out to the writer, or returns what to wait for.
func (in *Inbound) enqueue(out outgoing) (wait <-chan struct{}, err error) {
	l, c := in.link, &in.call
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case in.sealed:
		return nil, envelope.Errorf(envelope.Internal, envelope.StepLink, "a part was sent after the last one")
	case in.ctx.Err() != nil:
		return nil, envelope.AsError(context.Cause(&in.ctx))
	case c.out.active:
		if c.wake == nil {
			c.wake = make(chan struct{}, 1)
		}
		return c.wake, nil
	}
	c.out = out
	in.sealed = out.final
	l.resume(c)
	return nil, nil
}

// begin starts the handler on the encoded envelope. The caller holds mu; l.tasks has a part for the reader, so it may grow.
func (l *Link) begin(in *Inbound, b []byte) {
	l.uncount(&in.call, in.call.in.counted)
	in.ctx.Context, in.cancel = context.WithCancelCause(l.base)
	l.tasks.Add(1)
	go l.serve(in, b)
}

func (l *Link) serve(in *Inbound, b []byte) {
	defer l.tasks.Done()
	var err error
	returned := false
	defer func() {
		if !returned { // runtime.Goexit
			err = envelope.Errorf(envelope.Internal, envelope.StepLink, "the handler ended without returning")
		}
		l.conclude(in, err)
	}()
	err = l.handle(in, b)
	returned = true
}

func (l *Link) handle(in *Inbound, b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			l.cfg.Log.Error("handler panicked", "node", l.peer.ID, "err", r, "stack", string(debug.Stack()))
			err = envelope.Errorf(envelope.Internal, envelope.StepLink, "the handler panicked")
		}
	}()
	if in.Envelope, err = envelope.DecodeBinary(b, l.cfg.MaxMessage); err != nil {
		return err
	}
	return l.handler(&in.ctx, in)
}

// conclude notes that the handler has returned, and lets the end follow what it sent.
func (l *Link) conclude(in *Inbound, err error) {
	var body []byte
	if err != nil {
		body = encodeError(in.coded(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer in.cancel(context.Canceled)
	in.returned = true
	if in.sealed {
		if err != nil {
			l.stats.LateErrors++
		}
		if in.said || in.ctx.Err() != nil {
			l.endNow(in)
		}
		return
	}
	in.sealed, in.ending, in.endBody = true, true, body
	if !in.call.out.active {
		l.endNow(in)
	}
}

// coded makes err an error of the protocol; a bare context error becomes what ended the context.
func (in *Inbound) coded(err error) *envelope.Error {
	var e *envelope.Error
	if errors.As(err, &e) {
		return e
	}
	if in.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return envelope.AsError(context.Cause(&in.ctx))
	}
	return envelope.AsError(err)
}

// endNow says the end, unless it was said, and forgets the call. The caller holds mu.
func (l *Link) endNow(in *Inbound) {
	if !in.said {
		in.said = true
		if in.endBody == nil && in.stopped != nil {
			in.endBody = encodeError(in.stopped)
		}
		l.say(end, 0, in.call.number, in.endBody)
	}
	l.close(&in.call)
}

// stop ends an inbound call from outside its handler: the asker cancelled, the deadline passed or the asker does not read. What
// was on its way out is dropped. The caller holds mu.
func (l *Link) stop(in *Inbound, why *envelope.Error) {
	c := &in.call
	l.ready.remove(c)
	c.out, c.starving, c.due = outgoing{}, time.Time{}, time.Time{}
	in.stopped = why
	if in.cancel != nil {
		in.cancel(why)
	} else { // the message is not whole yet
		l.uncount(c, c.in.counted)
	}
	if in.cancel == nil || in.returned {
		l.endNow(in)
	}
}
