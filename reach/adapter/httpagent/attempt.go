package httpagent

import (
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// attempt is one request on its way onto a connection. It knows exactly whether anything of the request was handed over:
//
//	waiting ──the first write begins──▶ written       from here on the request may run
//	   │   ◀──that write wrote nothing──┘
//	   └──given up──▶ abandoned                       no connection writes for it any more
//
// net/http writes in a goroutine of its own, which may be about to begin when the caller gives up; the one step from waiting to
// either side settles who was first.
type attempt struct {
	state  atomic.Int32
	reused bool // the connection had carried a request before
}

const (
	waiting int32 = iota
	written
	abandoned
)

// begin reports whether the attempt's connection may write, and whether this is its first write.
func (t *attempt) begin() (first, ok bool) {
	if t.state.CompareAndSwap(waiting, written) {
		return true, true
	}
	return false, t.state.Load() == written
}

// undo takes begin back when the first write wrote nothing.
func (t *attempt) undo() { t.state.CompareAndSwap(written, waiting) }

// abandon ends the attempt and reports whether nothing of it was handed over, now or later.
func (t *attempt) abandon() bool {
	return t.state.CompareAndSwap(waiting, abandoned) || t.state.Load() == abandoned
}

// got ties the attempt to the connection that will carry it.
func (t *attempt) got(info httptrace.GotConnInfo) {
	t.reused = info.Reused
	if c, ok := info.Conn.(*conn); ok {
		c.current.Store(t)
	}
}

// conn is a connection that asks its current attempt before it writes.
type conn struct {
	net.Conn
	current atomic.Pointer[attempt]
}

var errAbandoned = errors.New("given up before it was written")

// Write writes for the current attempt.
func (c *conn) Write(b []byte) (int, error) {
	t := c.current.Load()
	if t == nil {
		return c.Conn.Write(b)
	}
	first, ok := t.begin()
	if !ok {
		return 0, errAbandoned
	}
	n, err := c.Conn.Write(b)
	if first && n == 0 && err != nil {
		t.undo()
	}
	return n, err
}
