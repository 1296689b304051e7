package link

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

// A small message passes a 4 MiB one of the same or lower priority after no more frames than one Write gathers and the stream holds.
func TestSmallPassesLarge(t *testing.T) {
	const mayPass = 2*maxWrite/maxChunk + (64<<10)/maxChunk + 2
	for _, priority := range []int{1, 5} {
		noLeak(t)
		dialer, acceptor := configs()
		acceptor.Window = 16 << 20
		peer, l, _ := rawPeer(t, false, acceptor, dialer, refuseAll)
		ctx, stop := context.WithCancel(t.Context())
		go l.Call(ctx, ask(t, 4<<20), Hop{Priority: 5}, ignore)
		large, _ := peer.next()
		go l.Call(ctx, ask(t, 10), Hop{Priority: priority}, ignore)
		eventually(t, "the small message to wait", func() bool { return l.Stats().Asked == 2 })
		passed := 0
		for {
			f, _ := peer.next()
			if f.kind == message && f.call != large.call {
				break
			}
			passed++
		}
		if passed > mayPass {
			t.Errorf("priority %d: %d frames of the large message came first; at most %d may", priority, passed, mayPass)
		}
		stop()
	}
}

// Among what waits, the urgent is written first, whatever came first.
func TestPriorityOrdersWhatWaits(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	peer, l, _ := rawPeer(t, false, acceptor, dialer, refuseAll)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go l.Call(ctx, ask(t, 4<<20), Hop{Priority: 1}, ignore) // fills its window, and the stream
	eventually(t, "the stream to be full", func() bool {
		s := peer.conn.(conn).r
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.buf) == s.limit
	})
	for i, p := range []int{9, 7, 5, 3, 2} {
		go l.Call(ctx, ask(t, p), Hop{Priority: p}, ignore)
		eventually(t, "the call to wait", func() bool { return l.Stats().Asked == uint64(i)+2 })
	}
	var order []int
	for len(order) < 5 {
		f, body := peer.next()
		if f.kind == message && f.has(first) && f.call != 1 {
			h, err := decodeHop(body[1:1+hopLen], testStart)
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, h.Priority)
		}
	}
	for i, p := range []int{2, 3, 5, 7, 9} {
		if order[i] != p {
			t.Fatalf("order %v", order)
		}
	}
}

// A reader that gives no credit: what it was sent is its window, and the sender holds one part more.
func TestReaderWithoutCredit(t *testing.T) {
	noLeak(t)
	const size = 4 << 10
	dialer, acceptor := configs()
	dialer.Window = 64 << 10
	var sent atomic.Int32
	stopped := make(chan error, 1)
	peer, l, _ := rawPeer(t, true, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
		for {
			if err := in.Send(ctx, in.Envelope); err != nil {
				stopped <- err
				return err
			}
			sent.Add(1)
		}
	})
	e := ask(t, size)
	peer.send(message, first|last, 1, opener(e, Hop{}))
	got := 0
	for got < dialer.Window {
		f, _ := peer.next()
		got += f.size
		if f.has(first) {
			got -= 4
		}
	}
	if got != dialer.Window {
		t.Errorf("%d bytes in a window of %d", got, dialer.Window)
	}
	if _, err := pinged(peer, l); err != nil {
		t.Fatal(err)
	}
	if most := int32(dialer.Window/e.BinarySize() + 2); sent.Load() > most {
		t.Errorf("%d parts were taken from the handler; at most %d fit", sent.Load(), most)
	}
	peer.send(cancel, 0, 1, encodeError(envelope.Errorf(envelope.Timeout, envelope.StepCall, "enough")))
	if err := await(t, stopped, "Send to fail"); err.Error() != "timeout at call: enough" {
		t.Errorf("Send failed with %v", err)
	}
	peer.want(end)
}

// A sink that does not return: the peer gets two windows of credit at most, whatever it has to say.
func TestSinkWithoutEnd(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	dialer.Window = 64 << 10
	l := run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
		for {
			if err := in.Send(ctx, in.Envelope); err != nil {
				return err
			}
		}
	})
	e := ask(t, 1000)
	blocked, release, done := make(chan int, 1), make(chan struct{}), make(chan error, 1)
	enough := errors.New("enough")
	parts := 0
	go func() {
		done <- l.Call(t.Context(), e, Hop{}, func(*envelope.Envelope) error {
			if parts++; parts == 1 {
				blocked <- 1
				<-release
			}
			if parts > 1000 {
				return enough
			}
			return nil
		})
	}()
	await(t, blocked, "the first part")
	eventually(t, "the stream to stand still", func() bool {
		l.other.mu.Lock()
		defer l.other.mu.Unlock()
		for _, c := range l.other.calls {
			return c.out.active && c.credit == 0 && l.Stats().Buffered >= dialer.Window
		}
		return false
	})
	if b := l.Stats().Buffered; b > 2*dialer.Window+e.BinarySize() {
		t.Errorf("%d bytes wait in a window of %d", b, dialer.Window)
	}
	close(release)
	if err := await(t, done, "Call to return"); err != enough {
		t.Errorf("call ended with %v after %d parts", err, parts)
	}
	eventually(t, "the handler to end", func() bool { return l.other.Stats().OpenInbound == 0 })
	if s := l.Stats(); s.Buffered != 0 {
		t.Errorf("%d bytes are left", s.Buffered)
	}
}

func TestCancelReachesHandler(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	started, cause := make(chan struct{}), make(chan error, 1)
	l := run(t, dialer, acceptor, func(ctx context.Context, _ *Inbound) error {
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	ctx, cancelCall := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Call(ctx, ask(t, 1), Hop{}, ignore) }()
	await(t, started, "the handler")
	cancelCall()
	if err := await(t, done, "Call to return"); !errors.Is(err, envelope.Timeout) {
		t.Errorf("call ended with %v", err)
	}
	if err := await(t, cause, "the handler to be told"); !errors.Is(err, envelope.Timeout) {
		t.Errorf("cause %v", err)
	}
}

func TestGivenUpBeforeHandOver(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	acceptor.Window = 4 << 10
	peer, l, _ := rawPeer(t, false, acceptor, dialer, refuseAll)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Call(ctx, ask(t, 100<<10), Hop{}, ignore) }()
	peer.next()
	stop()
	if err := await(t, done, "Call to return"); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("call ended with %v", err)
	}
	peer.want(cancel)
	if err := l.Call(ctx, ask(t, 1), Hop{}, ignore); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("call with a dead context: %v", err)
	}
	if err := l.Call(t.Context(), ask(t, 1), Hop{Deadline: testStart}, ignore); !errors.Is(err, envelope.Expired) {
		t.Errorf("call after its deadline: %v", err)
	}
}

// An answer that finds no room fails its call as one that may have run: overloaded would invite a second run.
func TestAnswerWithoutRoom(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	dialer.MaxBuffered = 1000
	l := run(t, dialer, acceptor, echo)
	if err := l.Call(t.Context(), ask(t, 2000), Hop{}, ignore); !errors.Is(err, envelope.Timeout) {
		t.Errorf("call ended with %v", err)
	}
	dialer.MaxBuffered, dialer.MaxMessage = 0, 1000
	l = run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error { return in.SendLast(ctx, in.Envelope) })
	if err := l.Call(t.Context(), ask(t, 2000), Hop{}, ignore); !errors.Is(err, envelope.TooLarge) {
		t.Errorf("call ended with %v", err)
	}
	if err := l.other.Call(t.Context(), ask(t, 2000), Hop{}, ignore); !errors.Is(err, envelope.TooLarge) {
		t.Errorf("call of more than the peer takes ended with %v", err)
	}
}

func TestMaxCallsAtAsker(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	acceptor.MaxCalls = 1
	started := make(chan struct{})
	l := run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error { close(started); return hold(ctx, in) })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Call(ctx, ask(t, 1), Hop{}, ignore) }()
	await(t, started, "the handler")
	if err := l.Call(t.Context(), ask(t, 1), Hop{}, ignore); !errors.Is(err, envelope.Overloaded) {
		t.Errorf("second call: %v", err)
	}
	stop()
	await(t, done, "the first call")
}

func TestSendAfterLast(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	again := make(chan error, 1)
	l := run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
		in.SendLast(ctx, in.Envelope)
		again <- in.Send(ctx, in.Envelope)
		return errors.New("too late")
	})
	if err := l.Call(t.Context(), ask(t, 1), Hop{}, ignore); err != nil {
		t.Error(err)
	}
	if err := await(t, again, "Send"); !errors.Is(err, envelope.Internal) {
		t.Errorf("Send after SendLast: %v", err)
	}
	eventually(t, "the late error to be counted", func() bool { return l.other.Stats().LateErrors == 1 })
}

func TestGoAway(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	started, release := make(chan struct{}), make(chan struct{})
	l := run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
		close(started)
		<-release
		return in.SendLast(ctx, in.Envelope)
	})
	done := make(chan error, 1)
	go func() { done <- l.Call(t.Context(), ask(t, 1), Hop{}, ignore) }()
	await(t, started, "the handler")
	l.other.GoAway(envelope.Errorf(envelope.Unreachable, envelope.StepLink, "node-1 is being replaced"))
	await(t, l.Parting(), "the goaway")
	if err := l.Call(t.Context(), ask(t, 1), Hop{}, ignore); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("new call: %v", err)
	}
	close(release)
	if err := await(t, done, "the running call"); err != nil {
		t.Errorf("running call: %v", err)
	}
	if err := l.other.Call(t.Context(), ask(t, 1), Hop{}, ignore); !errors.Is(err, envelope.Unsupported) {
		t.Errorf("call of the side that goes away: %v", err)
	}
	l.other.Close(envelope.Errorf(envelope.Unreachable, envelope.StepLink, "gone"))
	if err := await(t, l.ranA, "the dialer's Run"); err.Error() != "unreachable at link: gone" {
		t.Errorf("dialer's Run returned %v", err)
	}
	if err := await(t, l.ranB, "the acceptor's Run"); err.Error() != "unreachable at link: gone" {
		t.Errorf("acceptor's Run returned %v", err)
	}
}

// A call that arrives after our goaway was not run.
func TestCallAfterGoAway(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	peer, l, _ := rawPeer(t, true, dialer, acceptor, echo)
	l.GoAway(nil)
	peer.want(goaway)
	peer.send(message, first|last, 1, opener(ask(t, 1), Hop{}))
	if err := peer.want(end); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("end says %v", err)
	}
}

func TestCloseFromHandlerSendsAnswer(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	l := run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
		if err := in.SendLast(ctx, in.Envelope); err != nil {
			return err
		}
		in.link.Close(nil)
		return nil
	})
	if err := l.Call(t.Context(), ask(t, 1), Hop{}, ignore); err != nil {
		t.Error(err)
	}
	await(t, l.ranA, "the dialer's Run")
}

func TestRunEndsWithContext(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	a, b := newPipe(1 << 10)
	dialed, accepted := shake(t, a, b, dialer, acceptor)
	why := errors.New("shutting down")
	ctx, stop := context.WithCancelCause(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- dialed.link.Run(ctx, echo) }()
	stop(why)
	if err := await(t, ran, "Run"); err != why {
		t.Errorf("Run returned %v", err)
	}
	if err := dialed.link.Run(t.Context(), echo); err != why {
		t.Errorf("second Run returned %v", err)
	}
	accepted.link.Close(nil)
}

func TestCloseWithSilentPeer(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	peer, l, ran := rawPeer(t, true, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
		for in.Send(ctx, in.Envelope) == nil {
		}
		return nil
	})
	for i := range uint32(4) {
		peer.send(message, first|last, 2*i+1, opener(ask(t, 40<<10), Hop{}))
	}
	s := peer.conn.(conn).r
	eventually(t, "the stream to be full", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.buf) == s.limit
	})
	l.Close(nil)
	await(t, ran, "Run")
}

func TestFloodOfPings(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	peer, _, ran := rawPeer(t, true, dialer, acceptor, echo)
	flood := make([]byte, 0, 18000)
	for range 1000 {
		flood = appendFrame(flood, ping, 0, 0, make([]byte, 8))
	}
	for {
		if _, err := peer.conn.Write(flood); err != nil {
			break
		}
	}
	if err := await(t, ran, "Run"); !errors.Is(err, envelope.Overloaded) {
		t.Errorf("Run returned %v", err)
	}
}
