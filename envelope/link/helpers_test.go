package link

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

var testStart = time.Unix(1_750_000_000, 0)

// patience bounds every wait of a test for something that must happen.
const patience = 10 * time.Second

// stream is one direction of an in-memory connection: at most limit bytes are on the way.
type stream struct {
	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte
	limit  int
	closed bool
	wrote  int // bytes in all
}

func newStream(limit int) *stream {
	s := &stream{limit: limit}
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) == 0 && !s.closed {
		s.cond.Wait()
	}
	if len(s.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.buf)
	s.buf = append(s.buf[:0], s.buf[n:]...)
	s.cond.Broadcast()
	return n, nil
}

func (s *stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		for len(s.buf) >= s.limit && !s.closed {
			s.cond.Wait()
		}
		if s.closed {
			return n, io.ErrClosedPipe
		}
		k := min(len(p)-n, s.limit-len(s.buf))
		s.buf = append(s.buf, p[n:n+k]...)
		n += k
		s.wrote += k
		s.cond.Broadcast()
	}
	return n, nil
}

func (s *stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cond.Broadcast()
}

type conn struct{ r, w *stream }

func (c conn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c conn) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c conn) Close() error                { c.r.Close(); c.w.Close(); return nil }

// newPipe is a connection in memory with limit bytes of buffer in each direction.
func newPipe(limit int) (a, b conn) {
	x, y := newStream(limit), newStream(limit)
	return conn{x, y}, conn{y, x}
}

func key(n byte) envelope.PrivateKey { return envelope.KeyFromSeed([32]byte{n}) }

func configs() (dialer, acceptor Config) {
	dialer = Config{Role: Agent, ID: "alice", Key: key(1), Log: quiet}
	acceptor = Config{Role: Node, ID: "node-1", Key: key(2), Log: quiet}
	return dialer, acceptor
}

type result struct {
	link *Link
	err  error
}

// shake makes a link over both ends at once.
func shake(t testing.TB, a, b io.ReadWriteCloser, dialer, acceptor Config) (dialed, accepted result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		accepted.link, accepted.err = Accept(ctx, b, acceptor)
	}()
	dialed.link, dialed.err = Dial(ctx, a, dialer)
	<-done
	return dialed, accepted
}

// linked is two links that run, and how they end.
type linked struct {
	*Link          // the dialer's
	other    *Link // the acceptor's
	ranA     chan error
	ranB     chan error
	stopRuns context.CancelFunc
}

func refuseAll(context.Context, *Inbound) error {
	return envelope.Errorf(envelope.Unsupported, envelope.StepLink, "nothing is served here")
}

// run links both ends and serves h at the acceptor's.
func run(t testing.TB, dialer, acceptor Config, h Handler) *linked {
	t.Helper()
	a, b := newPipe(64 << 10)
	return runOver(t, a, b, dialer, acceptor, refuseAll, h)
}

func runOver(t testing.TB, a, b io.ReadWriteCloser, dialer, acceptor Config, atDialer, atAcceptor Handler) *linked {
	t.Helper()
	dialed, accepted := shake(t, a, b, dialer, acceptor)
	if dialed.err != nil || accepted.err != nil {
		t.Fatalf("handshake: dialer %v, acceptor %v", dialed.err, accepted.err)
	}
	l := &linked{Link: dialed.link, other: accepted.link, ranA: make(chan error, 1), ranB: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	l.stopRuns = stop
	go func() { l.ranA <- l.Run(ctx, atDialer) }()
	go func() { l.ranB <- l.other.Run(ctx, atAcceptor) }()
	t.Cleanup(func() {
		stop()
		await(t, l.Done(), "the dialer's link to end")
		await(t, l.other.Done(), "the acceptor's link to end")
	})
	eventually(t, "both links to run", func() bool { return isRunning(l.Link) && isRunning(l.other) })
	return l
}

func isRunning(l *Link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state != fresh
}

func await[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatalf("waited %v for %s\n%s", patience, what, stacks())
	}
	return v
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(200 * time.Microsecond)
	defer look.Stop()
	for limit := time.Now().Add(patience); !holds(); <-look.C {
		if time.Now().After(limit) {
			t.Fatalf("waited %v for %s\n%s", patience, what, stacks())
		}
	}
}

func stacks() string {
	b := make([]byte, 64<<10)
	return string(b[:runtime.Stack(b, true)])
}

// noLeak fails if the test leaves goroutines behind.
func noLeak(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		eventually(t, fmt.Sprintf("%d goroutines to be left", before), func() bool { return runtime.NumGoroutine() <= before })
	})
}

// ask is a sealed request with a payload of n bytes.
func ask(t testing.TB, n int) *envelope.Envelope {
	t.Helper()
	e, err := envelope.New(envelope.Header{
		MsgID: "m-1", MsgType: envelope.Request, SourceAgent: "alice", TargetCapability: "stock.query",
		TTLSec: 60, Priority: 5, Timestamp: envelope.Timestamp{Time: time.Unix(1_750_000_000, 0)},
	}, []byte(strings.Repeat("x", n)))
	if err != nil {
		t.Fatal(err)
	}
	envelope.Sign(key(1), e)
	return e
}

// carrying is e with a payload of n bytes, under the seal of another: the link does not look.
func carrying(e *envelope.Envelope, n int) *envelope.Envelope {
	return &envelope.Envelope{RawHeader: e.RawHeader, Seal: e.Seal, Payload: []byte(strings.Repeat("x", n))}
}

var quiet = slog.New(slog.DiscardHandler)

func echo(ctx context.Context, in *Inbound) error { return in.SendLast(ctx, in.Envelope) }

// collect calls and returns the parts.
func collect(ctx context.Context, l *Link, e *envelope.Envelope, hop Hop) (parts []*envelope.Envelope, err error) {
	err = l.Call(ctx, e, hop, func(p *envelope.Envelope) error {
		parts = append(parts, p)
		return nil
	})
	return parts, err
}

func ignore(*envelope.Envelope) error { return nil }
