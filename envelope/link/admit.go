package link

import "github.com/agent-reach/agent-reach/envelope"

// firstBuffer is how much is allocated for an announced envelope before more of it has come.
const firstBuffer = 64 << 10

// extend makes room for n more bytes of the unfinished envelope and returns it.
func (in *incoming) extend(n int) []byte {
	had := len(in.buf)
	if had+n > cap(in.buf) {
		grown := make([]byte, had, min(in.want, max(4*cap(in.buf), had+n, firstBuffer)))
		copy(grown, in.buf)
		in.buf = grown
	}
	in.buf = in.buf[:had+n]
	return in.buf[had:]
}

// admit finds the call of a data frame, or makes it, and checks the frame against what was announced and granted. A nil
// call without an error: the bytes are to be dropped. The caller holds mu.
func (l *Link) admit(f frame, a announcement) (*call, error) {
	ours := f.kind == part
	if err := l.known(f, ours, !ours && f.has(first)); err != nil {
		return nil, err
	}
	l.stats.BytesIn += uint64(f.size)
	c := l.calls[f.call]
	if c == nil && !ours && f.has(first) {
		c = l.admitCall(f, a)
	}
	if c == nil {
		l.stats.Dropped++
		return nil, nil
	}
	if err := c.announce(f, a); err != nil {
		return nil, err
	}
	if ours && f.has(first) && !l.admitPart(c, a.size) {
		l.stats.Dropped++
		return nil, nil
	}
	if err := c.in.accept(f); err != nil {
		return nil, err
	}
	return c, nil
}

// known checks that the frame's call number is of the right side and was opened, or may be opened now.
func (l *Link) known(f frame, ours, opens bool) error {
	if f.call == 0 || (f.call%2 == l.parity) != ours {
		return malformed("%s on call %d, a number that is not of its side", f.kind, f.call)
	}
	newest := l.lastIn
	if ours {
		newest = l.lastOurs
	}
	switch {
	case opens && f.call <= newest:
		return malformed("call %d is opened after call %d; numbers grow, and each is opened once", f.call, newest)
	case !opens && f.call > newest:
		return malformed("%s on call %d, which was never opened", f.kind, f.call)
	}
	return nil
}

// announce checks that FIRST stands where an envelope begins and nowhere else.
func (c *call) announce(f frame, a announcement) error {
	switch {
	case f.has(first) && c.in.open:
		return malformed("call %d: an envelope begins before the last one has ended", f.call)
	case !f.has(first) && !c.in.open:
		return malformed("call %d: %s continues an envelope that never began", f.call, f.kind)
	case f.has(final) && !f.has(last):
		return malformed("call %d: END without LAST", f.call)
	}
	if f.has(first) {
		c.in.open, c.in.want, c.in.buf = true, a.size, nil
	}
	return nil
}

// accept books the frame's bytes.
func (in *incoming) accept(f frame) error {
	got := len(in.buf) + f.size
	switch {
	case f.size > in.granted:
		return malformed("call %d: %d bytes where %d had credit", f.call, f.size, in.granted)
	case got > in.want:
		return malformed("call %d: %d bytes of an envelope announced with %d", f.call, got, in.want)
	case f.has(last) && got != in.want:
		return malformed("call %d: an envelope announced with %d bytes ends after %d", f.call, in.want, got)
	}
	in.granted -= f.size
	return nil
}

// admitCall opens an inbound call, or refuses it with an end and returns nil.
func (l *Link) admitCall(f frame, a announcement) *call {
	l.lastIn = f.call
	if why := l.mayServe(a); why != nil {
		l.stats.Refused++
		l.tell(end, f.call, why)
		return nil
	}
	in := &Inbound{Hop: a.hop, link: l}
	in.ctx.deadline = a.hop.Deadline
	in.call = call{
		number: f.call, hop: a.hop, rank: a.hop.Priority, due: a.hop.Deadline, credit: l.limits.window,
		inbound: in, in: incoming{granted: l.cfg.Window},
	}
	c := &in.call
	l.served++
	l.stats.Served++
	l.calls[f.call] = c
	l.count(c, a.size)
	if !c.due.IsZero() {
		l.arm(c.due)
	}
	return c
}

// mayServe says why an inbound call is refused.
func (l *Link) mayServe(a announcement) *envelope.Error {
	over := func(format string, args ...any) *envelope.Error {
		return envelope.Errorf(envelope.Overloaded, envelope.StepLink, format, args...)
	}
	switch {
	case l.leaving != nil || l.err != nil:
		return unreachable("%s takes no new calls", l.cfg.ID)
	case a.size > l.cfg.MaxMessage:
		return envelope.Errorf(envelope.TooLarge, envelope.StepLink, "message is %d bytes; %s takes %d", a.size, l.cfg.ID, l.cfg.MaxMessage).
			WithHint("send a reference to the data, or have the administrator raise node.max_payload_bytes")
	case l.served >= l.cfg.MaxCalls:
		return over("%d calls are open on this link, as many as %s takes", l.served, l.cfg.ID)
	case l.buffered+a.size > l.cfg.MaxBuffered:
		return over("%d bytes wait on this link already; with %d more it is over the %d that %s holds", l.buffered, a.size, l.cfg.MaxBuffered, l.cfg.ID)
	}
	return nil
}

// admitPart reports whether a part of an answer may come in; if not, the call has failed. Overloaded would promise the caller that
// the call was not run, so it is Timeout on our side.
func (l *Link) admitPart(c *call, size int) bool {
	var ours, theirs *envelope.Error
	switch {
	case size > l.cfg.MaxMessage:
		ours = envelope.Errorf(envelope.TooLarge, envelope.StepLink, "answer of %s is %d bytes; the limit is %d", l.peer.ID, size, l.cfg.MaxMessage)
		theirs = ours
	case l.buffered+size > l.cfg.MaxBuffered:
		ours = envelope.Errorf(envelope.Timeout, envelope.StepLink, "the answer of %s found no room: %d bytes of answers wait to be taken and the limit is %d; it has run",
			l.peer.ID, l.buffered, l.cfg.MaxBuffered)
		theirs = envelope.Errorf(envelope.Overloaded, envelope.StepLink, "%s has no room for the answer", l.cfg.ID)
	default:
		l.count(c, size)
		return true
	}
	l.cancel(c, theirs)
	l.finish(c, ours)
	return false
}

// received books bytes that were read, and hands a whole envelope on. The caller holds mu.
func (l *Link) received(c *call, f frame) {
	if c.closed || l.err != nil {
		return
	}
	if !f.has(last) {
		l.settle(c, f.size)
		return
	}
	b := c.in.buf
	c.in.buf, c.in.open = nil, false
	if !c.ours {
		l.begin(c.inbound, b)
		return
	}
	c.in.parts = append(c.in.parts, b)
	c.in.waiting += len(b)
	if f.has(final) {
		l.finish(c, nil)
		return
	}
	l.settle(c, f.size)
	c.signal()
}

// settle gives the bytes of a frame back, at once or when parts have been taken.
func (l *Link) settle(c *call, n int) {
	if c.in.waiting < l.cfg.Window {
		l.giveBack(c, n)
	} else {
		c.in.held += n
	}
}
