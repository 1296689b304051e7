package ingress

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// listener lets at most limit connections be open. One more is told so and closed; a peer that does not listen even then
// is closed without a word once maxRefusals others are being told.
type listener struct {
	net.Listener
	slots    chan struct{}
	refusals chan struct{}
	running  *sync.WaitGroup // refusals on the way
	refusal  []byte
}

const (
	maxRefusals = 32
	refusalTime = 500 * time.Millisecond // for a refused peer to take its answer
)

func newListener(l net.Listener, limit int, running *sync.WaitGroup) *listener {
	return &listener{l, make(chan struct{}, limit), make(chan struct{}, maxRefusals), running, refusal(limit)}
}

// Accept waits for the next connection that there is room for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &conn{Conn: c, slots: l.slots}, nil
		default:
			l.refuse(c)
		}
	}
}

func (l *listener) refuse(c net.Conn) {
	select {
	case l.refusals <- struct{}{}:
	default:
		c.Close()
		return
	}
	l.running.Add(1)
	go func() {
		defer func() { c.Close(); <-l.refusals; l.running.Done() }()
		c.SetDeadline(time.Now().Add(refusalTime))
		c.Write(l.refusal)
		// Closing with bytes unread would take the answer back from the peer.
		if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			io.CopyN(io.Discard, c, maxHeader)
		}
	}()
}

// refusal is a whole HTTP answer.
func refusal(limit int) []byte {
	e := envelope.Errorf(envelope.Overloaded, envelope.StepLink, "this node has its limit of %d connections open", limit).
		WithRetryAfter(time.Second).WithHint("use another node, or one link instead of many connections")
	p := problemOf(e, e.HTTPStatus())
	body := p.encode()
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nRetry-After: 1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		p.Status, p.Title, problemType, len(body), body)
}

// conn gives its slot back when it is closed.
type conn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

// Close closes the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}

// CloseWrite says that nothing more will be written, where the connection can.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
