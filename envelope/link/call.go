package link

import (
	"context"
	"errors"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// call is one call at one side, asked by us or by the peer. The link's mu guards it.
type call struct {
	ours   bool
	number uint32 // 0: ours, and nothing of it was written yet
	hop    Hop
	rank   int // priority, 1 … 9
	due    time.Time
	closed bool // out of the link's table: frames for it are dropped

	prev, next *call         // in the link's queue
	wake       chan struct{} // tells who waits in Call or Send to look again

	out      outgoing
	credit   int       // bytes that may be written
	starving time.Time // when waiting for credit has lasted too long; zero: it does not wait
	in       incoming

	// Of calls that we ask.
	handed bool            // all of the message was given to the stream
	over   bool            // nothing more will come
	err    *envelope.Error // how it ended; nil: well

	inbound *Inbound // of calls that the peer asks
}

// outgoing is an envelope on its way out.
type outgoing struct {
	head, payload []byte
	off           int // bytes written; 0: the FIRST frame is still to come
	active, final bool
}

func (o *outgoing) left() int { return len(o.head) + len(o.payload) - o.off }

// appendNext appends the next n bytes to dst.
func (o *outgoing) appendNext(dst []byte, n int) []byte {
	if o.off < len(o.head) {
		k := min(n, len(o.head)-o.off)
		dst = append(dst, o.head[o.off:o.off+k]...)
		o.off += k
		n -= k
	}
	at := o.off - len(o.head)
	o.off += n
	return append(dst, o.payload[max(at, 0):max(at, 0)+n]...)
}

func newOutgoing(e *envelope.Envelope, final bool) outgoing {
	head := envelope.Envelope{RawHeader: e.RawHeader, Seal: e.Seal}
	return outgoing{
		head:    head.AppendBinary(make([]byte, 0, head.BinarySize())),
		payload: e.Payload,
		active:  true,
		final:   final,
	}
}

// incoming is an envelope on its way in, and those that wait to be taken.
type incoming struct {
	buf     []byte // of the unfinished envelope; its bytes are the reader's
	want    int    // its announced length
	open    bool   // there is one
	granted int    // bytes that the peer may still send
	owed    int    // bytes to be granted with the next credit frame
	held    int    // bytes to be owed when parts are taken
	listed  bool   // in the link's list of owing calls
	counted int    // this call's share of the link's buffered bytes
	parts   [][]byte
	waiting int // bytes of parts
	room    [1][]byte
}

// Call sends a request and hands every part of the answer to sink, in order and in the caller's goroutine, until the end. An error of
// sink cancels the call and is returned as it is; the peer's own error is returned as it came.
//
// Errors: Unreachable, Expired, Overloaded and TooLarge if the message was certainly not handed over; Timeout if it may have run;
// Malformed if a part is no envelope. A nil error means that the peer said all it had to say.
func (l *Link) Call(ctx context.Context, e *envelope.Envelope, hop Hop, sink func(*envelope.Envelope) error) error {
	c, err := l.ask(ctx, e, hop)
	if err != nil {
		return err
	}
	defer l.leave(c)
	for {
		b, over := l.take(c)
		switch {
		case b != nil:
			if err := l.deliver(c, b, sink); err != nil {
				return err
			}
			if over {
				return c.result()
			}
			if ctx.Err() == nil {
				continue
			}
		case over:
			return c.result()
		default:
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
			}
		}
		return l.giveUp(ctx, c)
	}
}

// result keeps a nil *envelope.Error from becoming an error that is not nil.
func (c *call) result() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

func (l *Link) ask(ctx context.Context, e *envelope.Envelope, hop Hop) (*call, error) {
	if size := e.BinarySize(); size > l.limits.message {
		return nil, envelope.Errorf(envelope.TooLarge, envelope.StepLink, "message is %d bytes; %s takes %d", size, l.peer.ID, l.limits.message).
			WithHint("send a reference to the data, or have the administrator raise node.max_payload_bytes")
	}
	c := &call{ours: true, hop: hop, due: hop.Deadline, rank: clampPriority(hop.Priority), wake: make(chan struct{}, 1)}
	if at, ok := ctx.Deadline(); ok && (hop.Deadline.IsZero() || at.Before(hop.Deadline)) {
		c.hop.Deadline, c.due = at, time.Time{} // ctx itself keeps the time
	}
	if ctx.Err() != nil || !c.hop.Deadline.IsZero() && time.Until(c.hop.Deadline) <= 0 {
		return nil, l.notRun(ctx)
	}
	c.hop.Priority = c.rank
	c.out = newOutgoing(e, true)
	c.credit, c.in.granted = l.limits.window, l.cfg.Window
	c.in.parts = c.in.room[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mayAsk(); err != nil {
		return nil, err
	}
	l.asked++
	l.stats.Asked++
	l.ready.push(c)
	if !c.due.IsZero() {
		l.arm(c.due)
	}
	l.nudge()
	return c, nil
}

// mayAsk says why no new call may start now. The caller holds mu.
func (l *Link) mayAsk() error {
	switch {
	case l.err != nil:
		return unreachable("the link to %s is closed: %v", l.peer.ID, l.err)
	case l.departed != nil:
		return unreachable("%s takes no new calls: %v", l.peer.ID, l.departed)
	case l.spent:
		return unreachable("the call numbers of the link to %s are used up; it must be made anew", l.peer.ID)
	case l.asked >= l.limits.calls:
		return envelope.Errorf(envelope.Overloaded, envelope.StepLink, "%d calls are open on the link to %s, as many as it takes", l.asked, l.peer.ID)
	}
	return nil
}

func unreachable(format string, args ...any) *envelope.Error {
	return envelope.Errorf(envelope.Unreachable, envelope.StepLink, format, args...)
}

// take returns the next part that waits, nil if none does, and whether there will never be another.
func (l *Link) take(c *call) (b []byte, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(c.in.parts) == 0 {
		return nil, c.over
	}
	b = c.in.parts[0]
	c.in.parts[0] = nil
	c.in.parts = c.in.parts[1:]
	if len(c.in.parts) == 0 {
		c.in.parts = c.in.room[:0]
	}
	c.in.waiting -= len(b)
	l.uncount(c, len(b))
	if c.in.held > 0 && c.in.waiting < l.cfg.Window {
		l.giveBack(c, c.in.held)
		c.in.held = 0
	}
	return b, c.over && len(c.in.parts) == 0
}

func (l *Link) deliver(c *call, b []byte, sink func(*envelope.Envelope) error) error {
	e, err := envelope.DecodeBinary(b, l.cfg.MaxMessage)
	if err != nil {
		l.abandon(c, envelope.AsError(err))
		return err
	}
	if err := sink(e); err != nil {
		l.abandon(c, envelope.Errorf(envelope.Timeout, envelope.StepLink, "the caller could not use a part of the answer and gave up"))
		return err
	}
	return nil
}

func (l *Link) giveUp(ctx context.Context, c *call) error {
	handed := l.abandon(c, envelope.Errorf(envelope.Timeout, envelope.StepLink, "the caller gave up: %v", ctx.Err()))
	if !handed {
		return l.notRun(ctx)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return l.noAnswer()
	}
	return envelope.Errorf(envelope.Timeout, envelope.StepLink, "given up by the caller after %s got it; it may have run", l.peer.ID)
}

func (l *Link) noAnswer() *envelope.Error {
	return envelope.Errorf(envelope.Timeout, envelope.StepLink, "the deadline passed before %s had answered; it may have run", l.peer.ID)
}

func (l *Link) notRun(ctx context.Context) *envelope.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return unreachable("given up by the caller before %s got it; it certainly did not run", l.peer.ID)
	}
	return envelope.Errorf(envelope.Expired, envelope.StepLink, "the deadline passed before %s got it; it certainly did not run", l.peer.ID)
}

// abandon gives the call up, tells the peer why if it knows of the call, and reports whether it was handed over.
func (l *Link) abandon(c *call, why *envelope.Error) (handed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel(c, why)
	return c.handed
}

// cancel is abandon for callers that hold mu.
func (l *Link) cancel(c *call, why *envelope.Error) {
	if c.closed {
		return
	}
	l.close(c)
	if c.number != 0 {
		l.tell(cancel, c.number, why)
	}
}

// finish ends one of our calls with err, for who waits in Call. The caller holds mu.
func (l *Link) finish(c *call, err *envelope.Error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	l.close(c)
	c.signal()
}

// leave gives back what the parts that nobody took occupied.
func (l *Link) leave(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.in.parts, c.in.buf = nil, nil
	l.uncount(c, c.in.counted)
}

// close takes the call out of the link's tables. The caller holds mu.
func (l *Link) close(c *call) {
	if c.closed {
		return
	}
	c.closed = true
	l.ready.remove(c)
	delete(l.calls, c.number)
	if !c.ours {
		l.served--
		return
	}
	l.asked--
	if l.spent && l.asked == 0 {
		l.fail(unreachable("the call numbers of the link to %s are used up; it must be made anew", l.peer.ID), true)
	}
}

// loseCalls ends what runs, since the link has ended. The caller holds mu.
func (l *Link) loseCalls(why *envelope.Error) {
	var lost []*call
	l.ready.each(func(c *call) {
		if c.number == 0 {
			lost = append(lost, c)
		}
	})
	for _, c := range l.calls {
		if c.ours {
			lost = append(lost, c)
		} else if c.inbound.cancel != nil {
			c.inbound.cancel(why)
		}
	}
	for _, c := range lost {
		if c.handed {
			l.finish(c, envelope.Errorf(envelope.Timeout, envelope.StepLink, "the link to %s was lost before the answer; it may have run: %v", l.peer.ID, why))
		} else {
			l.finish(c, unreachable("the link to %s was lost before it got the message; it certainly did not run: %v", l.peer.ID, why))
		}
	}
}

func (c *call) signal() {
	if c.wake == nil {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// giveBack owes the peer n bytes more. Small debts are gathered: a quarter of a window in arrears starves nobody.
func (l *Link) giveBack(c *call, n int) {
	c.in.owed += n
	if c.closed || c.in.listed || c.in.owed < l.cfg.Window/4 {
		return
	}
	c.in.listed = true
	l.owing = append(l.owing, c)
	l.nudge()
}

func (l *Link) count(c *call, n int) {
	c.in.counted += n
	l.buffered += n
}

func (l *Link) uncount(c *call, n int) {
	n = min(n, c.in.counted)
	c.in.counted -= n
	l.buffered -= n
}
