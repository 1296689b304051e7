//go:build !race

package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// pipes is a listener whose connections stay in this process, for bubbles in which time is the test's.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7981} }

func (p *pipes) dial() net.Conn {
	mine, its := net.Pipe()
	p.conns <- its
	return mine
}

// slowly runs a node in a bubble.
func slowly(t *testing.T, play func(t *testing.T, w *world, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t), newPipes()
		w.run(p)
		play(t, w, p)
	})
}

// answerOf reads what the node says until it closes, and when it did.
func answerOf(c net.Conn) (text string, after time.Duration) {
	began := time.Now()
	b, _ := io.ReadAll(c)
	return string(b), time.Since(began)
}

// A header that comes a byte a second is cut off after headerTime, whatever comes.
func TestSlowHeader(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		defer c.Close()
		go func() {
			for _, b := range []byte("POST /v1/messages HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		if _, after := answerOf(c); after < headerTime-time.Second || after > headerTime+time.Second {
			t.Errorf("closed after %v", after)
		}
	})
}

func TestIdleConnection(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		defer c.Close()
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		text, after := answerOf(c)
		if !strings.Contains(text, "200 OK") || after < idleTime || after > idleTime+time.Second {
			t.Errorf("closed after %v: %s", after, text)
		}
	})
}

// A body that comes slower than slowest is given up, and the peer is told.
func TestSlowBody(t *testing.T) {
	const size = 128 << 10
	slowly(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		defer c.Close()
		go func() {
			fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
			for {
				if _, err := c.Write([]byte("[")); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		began := time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp).problem(t, envelope.Expired, 408)
		if after, want := time.Since(began), timeFor(size); after < want-time.Second || after > want+2*time.Second {
			t.Errorf("after %v, want %v", after, want)
		}
		if left := w.server.bodies.left.Load(); left != int64(w.server.cfg.MaxBodies) {
			t.Errorf("%d bytes are still reserved", int64(w.server.cfg.MaxBodies)-left)
		}
	})
}

// A caller that does not take its answer is cut off.
func TestAnswerThatNobodyTakes(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		defer c.Close()
		io.WriteString(c, "GET /v1/openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(timeFor(len(openAPI)) + time.Second)
		synctest.Wait()
		c.SetReadDeadline(time.Now().Add(time.Hour))
		if text, _ := answerOf(c); len(text) >= len(openAPI) {
			t.Errorf("%d bytes were still there", len(text))
		}
	})
}

// A WebSocket that never says hello is closed.
func TestSilentLink(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		defer c.Close()
		io.WriteString(c, "GET /v1/link HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: agent-reach.3\r\n\r\n")
		text, after := answerOf(c)
		if !strings.Contains(text, "101 Switching") || after < handshakeTime || after > handshakeTime+5*time.Second {
			t.Errorf("closed after %v: %q", after, text)
		}
		synctest.Wait()
		if w.server.Links() != 0 {
			t.Error("its place is still taken")
		}
	})
}
