package link

import (
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	maxWrite  = 64 << 10 // bytes of messages gathered for one Write
	keptWrite = 4 << 10  // bytes of write buffer that a quiet link keeps
	// lastNumber leaves room for every call that waits for its number when it is reached.
	lastNumber = math.MaxUint32 - 4*maxPeerCalls
	// maxPeerCalls is the most calls that we open, whatever the peer allows.
	maxPeerCalls = 1 << 20
)

// write gathers what waits and writes it, until the link ends; then it writes what it still can, if that may be told.
func (l *Link) write() {
	var buf []byte
	for {
		var more bool
		if buf, more = l.next(buf); !more {
			return
		}
		if len(buf) == 0 {
			<-l.wake
			runtime.Gosched() // who is about to send may still join; with nobody there it costs nothing
			continue
		}
		if _, err := l.conn.Write(buf); err != nil {
			l.failNow(l.broke(err), false)
			return
		}
	}
}

// next is what to write now, in buf's place; more is false when nothing ever will be.
func (l *Link) next(buf []byte) (_ []byte, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = time.Time{}
	if l.err != nil && !l.polite {
		return nil, false
	}
	buf = l.gather(buf[:0])
	l.widest = max(l.widest, len(buf))
	if l.slim {
		if cap(buf) > keptWrite && l.widest <= keptWrite {
			buf = slices.Clone(buf)
		}
		l.slim, l.widest = false, 0
	}
	if len(buf) == 0 {
		return buf, l.err == nil
	}
	now := time.Now()
	l.writing = now.Add(l.cfg.StallTimeout)
	l.arm(l.writing)
	l.stats.Writes++
	l.stats.BytesOut += uint64(len(buf))
	return buf, true
}

// gather appends control frames, then frames of messages by priority and in turn. The caller holds mu.
func (l *Link) gather(buf []byte) []byte {
	buf = append(buf, l.control...)
	l.control = l.control[:0]
	if cap(l.control) > keptWrite {
		l.control = nil
	}
	for i, c := range l.owing {
		if l.owing[i], c.in.listed = nil, false; !c.closed {
			buf = appendCredit(buf, c.number, c.in.owed)
			c.in.granted += c.in.owed
			c.in.owed = 0
		}
	}
	l.owing = l.owing[:0]
	for len(buf) < maxWrite-maxChunk {
		c := l.ready.pop()
		if c == nil {
			break
		}
		buf = l.emit(buf, c)
	}
	return buf
}

// emit appends the call's next frame and puts the call back into the queue if it has another that may be written.
func (l *Link) emit(buf []byte, c *call) []byte {
	if !c.out.active {
		return l.emitEnd(buf, c)
	}
	var prefix [1 + hopLen + 4]byte
	f := frame{kind: part, call: c.number}
	opening := prefix[:0]
	if c.out.off == 0 {
		f.flags |= first
		if c.ours {
			if opening = l.open(opening, c); opening == nil {
				return buf
			}
		}
		opening = appendLength(opening, c.out.left())
	}
	if c.ours {
		f.kind, f.call = message, c.number
	}
	n := min(maxChunk-len(opening), c.out.left(), c.credit)
	if n == c.out.left() {
		f.flags |= last
		if !c.ours && c.out.final {
			f.flags |= final
		}
	}
	f.size = len(opening) + n
	buf = append(appendHead(buf, f), opening...)
	buf = c.out.appendNext(buf, n)
	c.credit -= n
	l.emitted(c)
	return buf
}

// open gives one of our calls its number and returns its hop, or nil if its deadline has passed and it must not start.
func (l *Link) open(dst []byte, c *call) []byte {
	now := time.Now()
	if remaining(c.hop.Deadline, now) == 0 {
		l.finish(c, envelope.Errorf(envelope.Expired, envelope.StepLink,
			"the deadline passed while the message waited for the link to %s; it certainly did not run", l.peer.ID))
		return nil
	}
	c.number = l.nextNumber()
	l.calls[c.number] = c
	return appendHop(append(dst, hopLen), c.hop, now)
}

// nextNumber is 1, 3, 5 … for the dialer, 2, 4, 6 … for the acceptor.
func (l *Link) nextNumber() uint32 {
	if l.lastOurs == 0 {
		l.lastOurs = 2 - l.parity
	} else {
		l.lastOurs += 2
	}
	l.spent = l.lastOurs >= lastNumber
	return l.lastOurs
}

func (l *Link) emitEnd(buf []byte, c *call) []byte {
	in := c.inbound
	in.said = true
	l.close(c)
	return appendFrame(buf, end, 0, c.number, in.endBody)
}

// emitted decides what becomes of a call of which a frame was just written.
func (l *Link) emitted(c *call) {
	if c.out.left() > 0 {
		l.resume(c)
		return
	}
	wasFinal := c.out.final
	c.out = outgoing{}
	switch {
	case c.ours:
		c.handed = true
	case wasFinal:
		c.inbound.said = true
		if c.inbound.returned {
			l.close(c)
		}
	case c.inbound.ending:
		l.ready.push(c)
	default:
		c.signal()
	}
}

// resume queues a call with something to write, or starts to count how long it waits for credit. The caller holds mu.
func (l *Link) resume(c *call) {
	if c.credit > 0 {
		c.starving = time.Time{}
		l.ready.push(c)
		l.nudge()
		return
	}
	if c.starving.IsZero() {
		c.starving = time.Now().Add(l.cfg.StallTimeout)
		l.arm(c.starving)
	}
}
