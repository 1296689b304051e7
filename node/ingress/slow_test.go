//go:build !race

package ingress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
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
	p.conns <- loopback{its}
	return mine
}

// loopback is a pipe that says that it comes from this machine.
type loopback struct{ net.Conn }

func (loopback) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000} }

// slowly runs a node in a bubble.
func slowly(t *testing.T, play func(t *testing.T, w *world, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t), newPipes()
		w.run(p)
		play(t, w, p)
	})
}

// during runs f beside the test; leave closes c and waits until f has ended.
func during(c net.Conn, f func()) (leave func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	return func() { c.Close(); <-done }
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
		defer during(c, func() {
			for _, b := range []byte("POST /v1/messages HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})()
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

// A body that comes slower than slowest is given up, however long it says it is, and the peer is told. Until then it has no more of the room for
// bodies than what was allocated for it.
func TestSlowBody(t *testing.T) {
	const size = 128 << 10
	slowly(t, func(t *testing.T, w *world, p *pipes) {
		c := p.dial()
		defer during(c, func() {
			fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
			for {
				if _, err := c.Write([]byte("[")); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})()
		began := time.Now()
		time.Sleep(time.Second)
		if held := int64(w.server.cfg.MaxBodies) - w.server.bodies.left.Load(); held > firstRead {
			t.Errorf("a few bytes hold the room of %d", held)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp).problem(t, envelope.Expired, 408)
		if after, want := time.Since(began), timeFor(100); after < want || after > want+time.Second {
			t.Errorf("after %v, want %v, whatever was announced", after, want)
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

// agentFunc is an agent inside of the bubble.
type agentFunc func(ctx context.Context, m *reach.Message, sink reach.Sink) error

func (f agentFunc) Call(ctx context.Context, m *reach.Message, sink reach.Sink) error {
	return f(ctx, m, sink)
}

// seat attaches an agent that waits before each part.
func (w *world) seat(id string, waits ...time.Duration) {
	p := &party{world: w, id: id, key: envelope.GenerateKey()}
	w.deps.Home.Attach(id, reach.Seat{Key: p.key.Public(), Limit: 1, Agent: agentFunc(func(ctx context.Context, m *reach.Message, sink reach.Sink) error {
		for i, d := range waits {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "%v", context.Cause(ctx))
			}
			if err := sink(p.answer(m.Envelope, strconv.Itoa(i))); err != nil {
				return err
			}
		}
		return nil
	})})
	if err := w.seats.publish(p.descriptor("work")); err != nil {
		w.Fatal(err)
	}
}

func (w *world) bubbleCaller() *party {
	p := &party{world: w, id: "caller", key: envelope.GenerateKey()}
	if err := w.seats.pin(p.id, p.key.Public()); err != nil {
		w.Fatal(err)
	}
	return p
}

// An agent may take its time: the limits for bodies and answers are none for the call, nor for the pauses between parts.
func TestLongCall(t *testing.T) {
	for _, waits := range [][]time.Duration{{10 * time.Minute}, {time.Second, 10 * time.Minute, 10 * time.Minute}} {
		slowly(t, func(t *testing.T, w *world, p *pipes) {
			w.seat("slow", waits...)
			caller := w.bubbleCaller()
			c := p.dial()
			h := caller.header(envelope.Request)
			h.TargetCapability, h.TTLSec = "work", 3600
			doc := document(t, caller.seal(h, "1"))
			defer during(c, func() {
				fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(doc), doc)
			})()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if g := read(t, resp); g.status != 200 || strings.Count(string(g.body), `"in_reply_to"`) != len(waits) {
				t.Errorf("%d %s", g.status, g.body)
			}
		})
	}
}

// A caller that stops reading in the middle of an answer gives up its call; the agent's place is free again, and its path bears no mark.
func TestCallerThatStopsReading(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, p *pipes) {
		w.seat("teller", make([]time.Duration, 10_000)...)
		caller := w.bubbleCaller()
		c := p.dial()
		defer c.Close()
		h := caller.header(envelope.Request)
		h.TargetCapability, h.TTLSec = "work", 3600
		doc := document(t, caller.seal(h, "1"))
		fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(doc), doc)
		synctest.Wait()
		if running, _ := w.deps.Home.Load("teller"); running != 1 {
			t.Fatalf("%d calls run", running)
		}
		time.Sleep(patience + 2*time.Second)
		synctest.Wait()
		if running, _ := w.deps.Home.Load("teller"); running != 0 {
			t.Errorf("%d calls still run", running)
		}
		if score := w.deps.Paths.Score(w.seats.directory.Agent("teller"), time.Now()); score != 10 {
			t.Errorf("the agent's score is %v", score)
		}
	})
}
