package link

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

type kind uint8

const (
	hello kind = 1 + iota
	proof
	message
	part
	end
	cancel
	ping
	credit
	goaway
)

type flags uint8

const (
	first flags = 1 << iota // first frame of an envelope
	last                    // last frame of an envelope
	final                   // END: last frame of a part, and of the call
	ack                     // answer to a ping
)

const (
	headLen  = 10
	maxBody  = 64 << 10 // bytes of a body, as received
	maxChunk = 16<<10 - headLen
	// minEnvelope is less than any valid envelope, and keeps a peer from queueing ever so many empty ones.
	minEnvelope = 64
	hopLen      = 7
	maxHopLen   = math.MaxUint8
	noDeadline  = math.MaxUint32
)

var kindNames = [...]string{"frame of type 0", "hello", "proof", "message", "part", "end", "cancel", "ping", "credit", "goaway"}

func (k kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown frame"
}

// frame is the head of a frame; size counts the bytes of its body.
type frame struct {
	kind  kind
	flags flags
	call  uint32
	size  int
}

func (f frame) has(want flags) bool { return f.flags&want != 0 }

func appendHead(dst []byte, f frame) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.size)+headLen-4)
	dst = append(dst, byte(f.kind), byte(f.flags))
	return binary.BigEndian.AppendUint32(dst, f.call)
}

func decodeHead(b []byte) (frame, error) {
	length := binary.BigEndian.Uint32(b)
	if length < headLen-4 || length > maxBody+headLen-4 {
		return frame{}, malformed("frame of length %d; it must be 6 to 65542", length)
	}
	return frame{
		kind:  kind(b[4]),
		flags: flags(b[5]),
		call:  binary.BigEndian.Uint32(b[6:]),
		size:  int(length) - (headLen - 4),
	}, nil
}

func appendFrame(dst []byte, k kind, fl flags, call uint32, body []byte) []byte {
	return append(appendHead(dst, frame{k, fl, call, len(body)}), body...)
}

func appendCredit(dst []byte, call uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(appendHead(dst, frame{credit, 0, call, 4}), uint32(n))
}

// Hop is what one hop tells the next about a call; it is not sealed.
type Hop struct {
	Deadline time.Time // zero: none
	HopsLeft int       // 0 … 255
	Priority int       // 1 (most urgent) … 9; 0 means envelope.DefaultPriority
	Attempts int       // already made, 0 … 255
}

// appendHop rounds what remains up to a millisecond, so that a deadline that has not passed never arrives as passed.
func appendHop(dst []byte, h Hop, now time.Time) []byte {
	dst = binary.BigEndian.AppendUint32(dst, remaining(h.Deadline, now))
	return append(dst, octet(h.HopsLeft), octet(h.Priority), octet(h.Attempts))
}

func remaining(deadline, now time.Time) uint32 {
	if deadline.IsZero() {
		return noDeadline
	}
	left := (deadline.Sub(now) + time.Millisecond - 1) / time.Millisecond
	return uint32(min(max(left, 0), noDeadline-1))
}

func octet(n int) byte { return byte(min(max(n, 0), math.MaxUint8)) }

// decodeHop reads a hop of at least hopLen bytes; what follows those is from a later version.
func decodeHop(b []byte, now time.Time) (Hop, error) {
	if len(b) < hopLen {
		return Hop{}, malformed("hop of %d bytes; it must be at least %d", len(b), hopLen)
	}
	h := Hop{HopsLeft: int(b[4]), Priority: clampPriority(int(b[5])), Attempts: int(b[6])}
	if ms := binary.BigEndian.Uint32(b); ms != noDeadline {
		h.Deadline = now.Add(time.Duration(ms) * time.Millisecond)
	}
	return h, nil
}

func clampPriority(p int) int {
	if p == 0 {
		return envelope.DefaultPriority
	}
	return min(max(p, 1), priorities)
}

// decodeLength reads the announced length of an envelope.
func decodeLength(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, malformed("a first frame ends before its envelope's length")
	}
	n := binary.BigEndian.Uint32(b)
	if n < minEnvelope {
		return 0, malformed("an envelope of %d bytes is announced; none has fewer than %d", n, minEnvelope)
	}
	return int(min(n, math.MaxInt32)), nil
}

func appendLength(dst []byte, n int) []byte { return binary.BigEndian.AppendUint32(dst, uint32(n)) }

// maxErrorText bounds the text of an error object that goes into a frame.
const maxErrorText = 8 << 10

// encodeError is the error object for a frame's body, cut to what fits into one.
func encodeError(e *envelope.Error) []byte {
	b := envelope.MarshalError(e)
	if len(b) <= maxChunk {
		return b
	}
	text := e.Text[:min(len(e.Text), maxErrorText/4)]
	return envelope.MarshalError(&envelope.Error{Code: e.Code, Step: e.Step, Text: text + " … (cut)", RetryAfter: e.RetryAfter})
}

func malformed(format string, args ...any) *envelope.Error {
	return envelope.Errorf(envelope.Malformed, envelope.StepLink, format, args...)
}
