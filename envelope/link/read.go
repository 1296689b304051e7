package link

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// firstBuffer is how much is allocated for an announced envelope before more of it has come.
const firstBuffer = 64 << 10

// read takes frames apart until the stream ends. After a breach it goes on listening, so that our goaway can arrive.
func (l *Link) read() {
	err := l.readFrames()
	var breach *envelope.Error
	if !errors.As(err, &breach) {
		l.failNow(l.broke(err), false)
		return
	}
	l.cfg.Log.Warn("peer broke the protocol", "node", l.peer.ID, "err", breach)
	l.mu.Lock()
	l.breach = true
	l.fail(breach, true)
	l.mu.Unlock()
	io.Copy(io.Discard, l.in)
}

// broke is the error for a stream that ended: what the peer's goaway announced, or else that it broke.
func (l *Link) broke(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.departed != nil {
		return l.departed
	}
	return unreachable("the link to %s broke: %v", l.peer.ID, err)
}

// readFrames returns an *envelope.Error for a breach, else the stream's error.
func (l *Link) readFrames() error {
	var head [headLen]byte
	for {
		if _, err := io.ReadFull(l.in, head[:]); err != nil {
			return err
		}
		f, err := decodeHead(head[:])
		if err == nil {
			err = l.readFrame(f)
		}
		if err != nil {
			return err
		}
	}
}

func (l *Link) readFrame(f frame) error {
	switch f.kind {
	case message, part:
		return l.readData(f)
	case end, cancel, goaway:
		return l.readVerdict(f)
	case ping:
		return l.readPing(f)
	case credit:
		return l.readCredit(f)
	case hello, proof:
		return malformed("%s after the handshake", f.kind)
	}
	l.mu.Lock()
	l.stats.Skipped++
	l.mu.Unlock()
	_, err := l.in.Discard(f.size)
	return err
}

// announcement is what a FIRST frame says before the envelope's bytes.
type announcement struct {
	hop  Hop
	size int // of the envelope
}

// readAnnouncement takes the prefix off a FIRST frame.
func (l *Link) readAnnouncement(f *frame) (a announcement, err error) {
	if !f.has(first) {
		return a, nil
	}
	skip := 0
	if f.kind == message {
		if skip, a.hop, err = l.peekHop(f.size); err != nil {
			return a, err
		}
	}
	if f.size < skip+4 {
		return a, malformed("a first frame ends before its envelope's length")
	}
	b, err := l.in.Peek(skip + 4)
	if err != nil {
		return a, err
	}
	if a.size, err = decodeLength(b[skip:]); err != nil {
		return a, err
	}
	f.size -= skip + 4
	_, err = l.in.Discard(skip + 4)
	return a, err
}

// peekHop decodes a hop and its length byte, and says how many bytes they take.
func (l *Link) peekHop(size int) (skip int, h Hop, err error) {
	if size < 1 {
		return 0, h, malformed("a message begins with an empty frame")
	}
	b, err := l.in.Peek(1)
	if err != nil {
		return 0, h, err
	}
	skip = 1 + int(b[0])
	if size < skip {
		return 0, h, malformed("a first frame of %d bytes ends before its hop", size)
	}
	if b, err = l.in.Peek(skip); err != nil {
		return 0, h, err
	}
	h, err = decodeHop(b[1:], time.Now())
	return skip, h, err
}

// readData reads the frame's bytes straight to where they belong.
func (l *Link) readData(f frame) error {
	a, err := l.readAnnouncement(&f)
	if err != nil {
		return err
	}
	l.mu.Lock()
	c, err := l.admit(f, a)
	var dst []byte
	if c != nil {
		dst = c.in.extend(f.size)
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case c == nil:
		_, err = l.in.Discard(f.size)
		return err
	}
	if _, err := io.ReadFull(l.in, dst); err != nil {
		return err
	}
	l.mu.Lock()
	l.received(c, f)
	l.mu.Unlock()
	return nil
}

// extend makes room for n more bytes of the unfinished envelope and returns it.
func (in *incoming) extend(n int) []byte {
	had := len(in.buf)
	if had+n > cap(in.buf) {
		grown := make([]byte, had, min(in.want, max(2*cap(in.buf), had+n, firstBuffer)))
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
		return envelope.Errorf(envelope.TooLarge, envelope.StepLink, "message is %d bytes; %s takes %d", a.size, l.cfg.ID, l.cfg.MaxMessage)
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

// readVerdict reads an end, a cancel or a goaway.
func (l *Link) readVerdict(f frame) error {
	var why *envelope.Error
	if f.size > 0 {
		body := make([]byte, f.size)
		if _, err := io.ReadFull(l.in, body); err != nil {
			return err
		}
		why = envelope.UnmarshalError(body)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f.kind {
	case end:
		return l.ended(f, why)
	case cancel:
		return l.cancelled(f, why)
	}
	return l.parted(f, why)
}

func (l *Link) ended(f frame, why *envelope.Error) error {
	if err := l.known(f, true, false); err != nil {
		return err
	}
	c := l.calls[f.call]
	if c == nil {
		return nil
	}
	if why == nil && c.in.open {
		return malformed("call %d ends well in the middle of a part", f.call)
	}
	l.finish(c, why)
	return nil
}

func (l *Link) cancelled(f frame, why *envelope.Error) error {
	if err := l.known(f, false, false); err != nil {
		return err
	}
	c := l.calls[f.call]
	if c == nil {
		return nil
	}
	if why == nil {
		why = envelope.Errorf(envelope.Timeout, envelope.StepLink, "the caller gave up")
	}
	l.stop(c.inbound, why)
	return nil
}

func (l *Link) parted(f frame, why *envelope.Error) error {
	if f.call != 0 {
		return malformed("goaway on call %d", f.call)
	}
	if why == nil {
		why = unreachable("%s goes away and does not say why", l.peer.ID)
	}
	if l.departed == nil {
		close(l.parting)
	}
	l.departed = why
	return nil
}

func (l *Link) readPing(f frame) error {
	if f.size != 8 || f.call != 0 {
		return malformed("ping of %d bytes on call %d; it is 8 bytes on call 0", f.size, f.call)
	}
	var b [8]byte
	if _, err := io.ReadFull(l.in, b[:]); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.has(ack) {
		l.pong(binary.BigEndian.Uint64(b[:]))
	} else {
		l.say(ping, ack, 0, b[:])
	}
	return nil
}

func (l *Link) readCredit(f frame) error {
	if f.size != 4 {
		return malformed("credit of %d bytes; it is 4", f.size)
	}
	var b [4]byte
	if _, err := io.ReadFull(l.in, b[:]); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.known(f, f.call%2 == l.parity, false); err != nil {
		return err
	}
	c := l.calls[f.call]
	if c == nil {
		return nil
	}
	n := int(binary.BigEndian.Uint32(b[:]))
	if c.credit > maxWindow-n {
		return malformed("call %d: credit of %d on top of %d", f.call, n, c.credit)
	}
	c.credit += n
	if c.out.active {
		l.resume(c)
	}
	return nil
}
