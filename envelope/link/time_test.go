//go:build !race

package link

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestDeadlines(t *testing.T) {
	for _, row := range []struct {
		name string
		ctx  time.Duration // 0: none
		hop  time.Duration
	}{
		{"of the context", 3 * time.Second, 0},
		{"of the hop", 0, 3 * time.Second},
		{"of the hop, earlier", time.Hour, 3 * time.Second},
		{"of the context, earlier", 3 * time.Second, time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialer, acceptor := configs()
				left := make(chan time.Duration, 1)
				ended := make(chan error, 1)
				l := run(t, dialer, acceptor, func(ctx context.Context, _ *Inbound) error {
					at, _ := ctx.Deadline()
					left <- time.Until(at)
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return ctx.Err()
				})
				ctx, hop := t.Context(), Hop{}
				if row.ctx > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, row.ctx)
					defer stop()
				}
				if row.hop > 0 {
					hop.Deadline = time.Now().Add(row.hop)
				}
				start := time.Now()
				err := l.Call(ctx, ask(t, 1), hop, ignore)
				if took := time.Since(start); !errors.Is(err, envelope.Timeout) || took != 3*time.Second {
					t.Errorf("ended after %v with %v", took, err)
				}
				if got := <-left; got != 3*time.Second {
					t.Errorf("the handler had %v", got)
				}
				if err := <-ended; !errors.Is(err, envelope.Timeout) {
					t.Errorf("the handler ended for %v", err)
				}
			})
		})
	}
}

// An asker that neither waits nor cancels: the deadline that it set holds all the same.
func TestDeadlineAtReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		seen := make(chan error, 1)
		peer, l, _ := rawPeer(t, true, dialer, acceptor, func(ctx context.Context, _ *Inbound) error {
			<-ctx.Done()
			seen <- ctx.Err()
			return ctx.Err()
		})
		start := time.Now()
		peer.send(message, first|last, 1, opener(ask(t, 1), Hop{Deadline: start.Add(2 * time.Second)}))
		peer.send(message, first, 3, openerOf(nil, 1000, Hop{Deadline: start.Add(2 * time.Second)}))
		for range 2 {
			if err := peer.want(end); !errors.Is(err, envelope.Timeout) || time.Since(start) != 2*time.Second {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
		if err := <-seen; err != context.DeadlineExceeded {
			t.Errorf("the context's error is %v", err)
		}
		synctest.Wait()
		if s := l.Stats(); s.OpenInbound != 0 || s.Buffered != 0 {
			t.Errorf("left behind: %+v", s)
		}
	})
}

// The time a message waits for the stream counts.
func TestDeadlineWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		peer, l, _ := rawPeer(t, false, acceptor, dialer, refuseAll)
		go l.Call(t.Context(), ask(t, 4<<20), Hop{Priority: 1}, ignore)
		synctest.Wait() // the stream is full
		late, soon := make(chan error, 1), make(chan error, 1)
		deadline := time.Now().Add(5 * time.Second)
		go func() { late <- l.Call(t.Context(), ask(t, 1), Hop{Deadline: deadline}, ignore) }()
		go func() { soon <- l.Call(t.Context(), ask(t, 2), Hop{Deadline: time.Now().Add(time.Second)}, ignore) }()
		if err := <-soon; !errors.Is(err, envelope.Expired) || time.Now().Before(testEpoch.Add(time.Second)) {
			t.Errorf("after %v: %v", time.Since(testEpoch), err)
		}
		time.Sleep(time.Second)
		for {
			f, body := peer.next()
			if f.kind == message && f.has(first) && f.call != 1 {
				if ms := binary.BigEndian.Uint32(body[1:]); ms != 3000 {
					t.Errorf("%d ms are left, not 3000", ms)
				}
				break
			}
		}
		if err := <-late; !errors.Is(err, envelope.Timeout) {
			t.Errorf("%v", err)
		}
	})
}

// testEpoch is when every bubble's clock starts.
var testEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		peer, l, _ := rawPeer(t, false, acceptor, dialer, refuseAll)
		type answer struct {
			trip time.Duration
			err  error
		}
		got := make(chan answer)
		measure := func(ctx context.Context) {
			trip, err := l.Ping(ctx)
			got <- answer{trip, err}
		}
		go measure(t.Context())
		_, body, _ := peer.read()
		time.Sleep(40 * time.Millisecond)
		peer.send(ping, ack, 0, body)
		if a := <-got; a.err != nil || a.trip != 40*time.Millisecond {
			t.Errorf("%v %v", a.trip, a.err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		go measure(ctx)
		if a := <-got; !errors.Is(a.err, envelope.Timeout) {
			t.Errorf("ping that nobody answers: %v", a.err)
		}
		go measure(t.Context())
		synctest.Wait()
		peer.conn.Close()
		if a := <-got; !errors.Is(a.err, envelope.Unreachable) {
			t.Errorf("ping on a link that ends: %v", a.err)
		}
	})
}

// A quiet link lives; a peer that reads and does not answer pings is told and cut off.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		l := run(t, dialer, acceptor, echo)
		time.Sleep(time.Hour)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		peer, silent, ran := rawPeer(t, false, acceptor, dialer, refuseAll)
		start := time.Now()
		told := peer.want(goaway)
		if took := time.Since(start).Round(time.Millisecond); took != 45*time.Second || !errors.Is(told, envelope.Unreachable) {
			t.Errorf("after %v: %v", took, told)
		}
		if err := <-ran; err == nil || err.Error() != told.Error() {
			t.Errorf("Run returned %v", err)
		}
		if silent.Err() == nil {
			t.Error("Err is nil")
		}
	})
}

// A peer that does not read at all is cut off as well, though it cannot be told.
func TestPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		acceptor.Window = 1 << 20
		_, l, ran := rawPeer(t, false, acceptor, dialer, refuseAll)
		start := time.Now()
		err := l.Call(t.Context(), ask(t, 1<<19), Hop{}, ignore)
		if took := time.Since(start); took != 30*time.Second || !errors.Is(err, envelope.Unreachable) {
			t.Errorf("after %v: %v", took, err)
		}
		if err := <-ran; !errors.Is(err, envelope.Unreachable) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A reader that gives no credit loses its call, is told why, and keeps the link.
func TestStarvedCallEndsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		dialer.Window = 4 << 10
		peer, l, _ := rawPeer(t, true, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
			return in.SendLast(ctx, in.Envelope)
		})
		start := time.Now()
		peer.send(message, first|last, 1, opener(ask(t, 10<<10), Hop{}))
		peer.next()
		for {
			f, body, err := peer.read()
			if err != nil {
				t.Fatal(err)
			}
			if f.kind == ping {
				peer.send(ping, ack, 0, body)
				continue
			}
			if told := envelope.UnmarshalError(body); f.kind != end || !errors.Is(told, envelope.Timeout) || time.Since(start) != 30*time.Second {
				t.Errorf("after %v: %s %v", time.Since(start), f.kind, told)
			}
			break
		}
		synctest.Wait()
		if s := l.Stats(); s.OpenInbound != 0 || l.Err() != nil {
			t.Errorf("%+v, %v", s, l.Err())
		}
	})
}

// The same for an asker whose message is not taken: it certainly did not run.
func TestStarvedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		acceptor.Window = 4 << 10
		peer, l, _ := rawPeer(t, false, acceptor, dialer, refuseAll)
		go func() {
			for {
				if f, body, err := peer.read(); err != nil {
					return
				} else if f.kind == ping {
					peer.send(ping, ack, 0, body)
				}
			}
		}()
		start := time.Now()
		err := l.Call(t.Context(), ask(t, 10<<10), Hop{}, ignore)
		if took := time.Since(start); took != 30*time.Second || !errors.Is(err, envelope.Unreachable) {
			t.Errorf("after %v: %v", took, err)
		}
		if err := l.Err(); err != nil {
			t.Errorf("the link ended: %v", err)
		}
	})
}

// A sink that takes a second for each part slows the sender down and loses nothing.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, acceptor := configs()
		dialer.Window = 16 << 10
		l := run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
			for i := range 50 {
				if err := in.Send(ctx, numbered(in.Envelope, i)); err != nil {
					return err
				}
			}
			return nil
		})
		n, most := 0, 0
		err := l.Call(t.Context(), ask(t, 1), Hop{}, func(*envelope.Envelope) error {
			n++
			time.Sleep(time.Second)
			most = max(most, l.Stats().Buffered)
			return nil
		})
		if err != nil || n != 50 {
			t.Errorf("%d parts, %v", n, err)
		}
		if most > 3*dialer.Window {
			t.Errorf("%d bytes waited in a window of %d", most, dialer.Window)
		}
	})
}
