package link

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

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
