package link

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// raw is a peer that has made the handshake and then does what it likes.
type raw struct {
	t    testing.TB
	conn io.ReadWriteCloser
	in   *bufio.Reader
}

// rawPeer links a raw peer to a Link that runs h. dials says which of both is the dialer: the raw peer if true.
func rawPeer(t testing.TB, dials bool, theirs, ours Config, h Handler) (*raw, *Link, chan error) {
	t.Helper()
	ours.Log = quiet
	a, b := newPipe(64 << 10)
	o := newOpening(a, theirs)
	play, open := o.accept, Dial
	if dials {
		play, open = o.dial, Accept
	}
	var r result
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.link, r.err = open(context.Background(), b, ours)
	}()
	if err := play(); err != nil {
		t.Fatal(err)
	}
	<-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	ran := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ran <- r.link.Run(ctx, h) }()
	t.Cleanup(func() {
		stop()
		a.Close()
		await(t, r.link.Done(), "the link to end")
	})
	eventually(t, "the link to run", func() bool { return isRunning(r.link) })
	return &raw{t, a, o.in}, r.link, ran
}

func (r *raw) send(k kind, fl flags, call uint32, body []byte) {
	r.t.Helper()
	if _, err := r.conn.Write(appendFrame(nil, k, fl, call, body)); err != nil {
		r.t.Fatal(err)
	}
}

// next reads the next frame that is no ping.
func (r *raw) next() (frame, []byte) {
	r.t.Helper()
	f, body, err := r.read()
	if err != nil {
		r.t.Fatal(err)
	}
	if f.kind == ping {
		return r.next()
	}
	return f, body
}

func (r *raw) read() (frame, []byte, error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return frame{}, nil, err
	}
	f, err := decodeHead(head[:])
	if err != nil {
		return frame{}, nil, err
	}
	body := make([]byte, f.size)
	_, err = io.ReadFull(r.in, body)
	return f, body, err
}

// want reads a frame of that kind and returns its error object.
func (r *raw) want(k kind) *envelope.Error {
	r.t.Helper()
	f, body := r.next()
	if f.kind != k {
		r.t.Fatalf("%s on call %d (%q) in place of %s", f.kind, f.call, body, k)
	}
	if len(body) == 0 {
		return nil
	}
	return envelope.UnmarshalError(body)
}

// opener is the body of a message's only frame.
func opener(e *envelope.Envelope, h Hop) []byte {
	return openerOf(e.AppendBinary(nil), e.BinarySize(), h)
}

func openerOf(data []byte, announced int, h Hop) []byte {
	b := appendHop([]byte{hopLen}, h, time.Now())
	return append(appendLength(b, announced), data...)
}

func TestBreaches(t *testing.T) {
	whole := opener(ask(t, 10), Hop{})
	data := make([]byte, 100)
	beyond := openerOf(make([]byte, 60<<10), 1<<20, Hop{})
	for _, row := range []struct {
		name, text string
		frames     []byte
	}{
		{"too long", "frame of length 65543", append(binary.BigEndian.AppendUint32(nil, 65543), make([]byte, 6)...)},
		{"too short", "frame of length 5", append(binary.BigEndian.AppendUint32(nil, 5), make([]byte, 6)...)},
		{"parity", "not of its side", appendFrame(nil, message, first|last, 2, whole)},
		{"call 0", "not of its side", appendFrame(nil, message, first|last, 0, whole)},
		{"part of own call", "not of its side", appendFrame(nil, part, first|last, 1, append(appendLength(nil, 100), data...))},
		{"part never asked", "never opened", appendFrame(nil, part, first|last, 2, append(appendLength(nil, 100), data...))},
		{"message never opened", "never opened", appendFrame(nil, message, last, 1, data)},
		{"cancel never opened", "never opened", appendFrame(nil, cancel, 0, 1, nil)},
		{"credit never opened", "never opened", appendFrame(nil, credit, 0, 1, data[:4])},
		{"end never opened", "never opened", appendFrame(nil, end, 0, 2, nil)},
		{"second FIRST", "opened once", frames(1, message, first, openerOf(data, 200, Hop{}), message, first, openerOf(data, 200, Hop{}))},
		{"beyond announced", "announced with 150", frames(1, message, first, openerOf(data, 150, Hop{}), message, 0, data)},
		{"short of announced", "ends after 200", frames(1, message, first, openerOf(data, 250, Hop{}), message, last, data)},
		{"beyond credit", "had credit", frames(1, message, first, beyond)},
		{"END without LAST", "END without LAST", frames(1, message, first|final, openerOf(data, 250, Hop{}))},
		{"tiny envelope", "none has fewer", frames(1, message, first, openerOf(nil, 5, Hop{}))},
		{"no hop", "empty frame", frames(1, message, first, nil)},
		{"short hop", "at least 7", frames(1, message, first, append([]byte{6}, data...))},
		{"cut hop", "before its hop", frames(1, message, first, []byte{7, 0, 0})},
		{"cut length", "before its envelope's length", frames(1, message, first, []byte{7, 0, 0, 0, 0, 0, 0, 0, 1})},
		{"hello again", "after the handshake", appendFrame(nil, hello, 0, 0, nil)},
		{"ping length", "ping of 7 bytes", appendFrame(nil, ping, 0, 0, data[:7])},
		{"credit length", "credit of 5 bytes", appendFrame(nil, credit, 0, 1, data[:5])},
		{"goaway on a call", "goaway on call", appendFrame(nil, goaway, 0, 3, nil)},
	} {
		t.Run(row.name, func(t *testing.T) {
			noLeak(t)
			dialer, acceptor := configs()
			acceptor.Window = 32 << 10
			peer, _, ran := rawPeer(t, true, dialer, acceptor, hold)
			go peer.conn.Write(row.frames)
			var told *envelope.Error
			for told == nil {
				if f, body := peer.next(); f.kind == goaway {
					told = envelope.UnmarshalError(body)
				}
			}
			if !errors.Is(told, envelope.Malformed) || !strings.Contains(told.Text, row.text) {
				t.Errorf("goaway says %v; want %q", told, row.text)
			}
			peer.conn.Close()
			if err := await(t, ran, "Run to return"); err == nil || err.Error() != told.Error() {
				t.Errorf("Run returned %v, the peer was told %v", err, told)
			}
		})
	}
}

// frames encodes kind, flags, body; kind, flags, body; …
func frames(call uint32, parts ...any) (b []byte) {
	for ; len(parts) > 0; parts = parts[3:] {
		body, _ := parts[2].([]byte)
		fl, _ := parts[1].(flags)
		b = appendFrame(b, parts[0].(kind), fl, call, body)
	}
	return b
}

// hold is a handler that waits for its end.
func hold(ctx context.Context, _ *Inbound) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestRefusals(t *testing.T) {
	small := ask(t, 10)
	for _, row := range []struct {
		name  string
		limit func(*Config)
		held  int // calls before
		body  []byte
		code  envelope.Code
	}{
		{"too large", func(c *Config) { c.MaxMessage = 1000 }, 0, openerOf(nil, 1001, Hop{}), envelope.TooLarge},
		{"too many", func(c *Config) { c.MaxCalls = 3 }, 3, opener(small, Hop{}), envelope.Overloaded},
		{"too much", func(c *Config) { c.MaxBuffered = 1 << 20 }, 0, openerOf(nil, 1<<20+1, Hop{}), envelope.Overloaded},
		{"no envelope", func(*Config) {}, 0, openerOf(make([]byte, 100), 100, Hop{}), envelope.Malformed},
	} {
		t.Run(row.name, func(t *testing.T) {
			noLeak(t)
			dialer, acceptor := configs()
			row.limit(&acceptor)
			peer, _, _ := rawPeer(t, true, dialer, acceptor, hold)
			number := uint32(1)
			for range row.held {
				peer.send(message, first|last, number, opener(small, Hop{}))
				number += 2
			}
			fl := first
			if row.name == "no envelope" || row.held > 0 {
				fl |= last
			}
			peer.send(message, fl, number, row.body)
			if err := peer.want(end); !errors.Is(err, row.code) {
				t.Errorf("end says %v; want %s", err, row.code)
			}
			peer.send(ping, 0, 0, make([]byte, 8))
			if f, _, err := peer.read(); err != nil || f.kind != ping || !f.has(ack) {
				t.Errorf("the link did not survive: %v %v", f, err)
			}
		})
	}
}

func TestUnknownIsSkipped(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	peer, l, _ := rawPeer(t, true, dialer, acceptor, echo)
	peer.send(0, 0xff, 77, make([]byte, 1000))
	peer.send(10, 0, 0, nil)
	peer.send(255, 0, 1, make([]byte, maxBody))
	long := append([]byte{hopLen + 9}, appendHop(nil, Hop{Priority: 3}, time.Now())...)
	e := ask(t, 10)
	long = appendLength(append(long, "futurebit"...), e.BinarySize())
	peer.send(message, first|last|0xf0, 1, e.AppendBinary(long))
	f, body := peer.next()
	if f.kind != part || f.flags != first|last|final || string(body[4:]) != string(e.AppendBinary(nil)) {
		t.Errorf("answer %+v", f)
	}
	if s := l.Stats(); s.Skipped != 3 {
		t.Errorf("skipped %d frames, not 3", s.Skipped)
	}
}

func TestLateFramesAreDropped(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	peer, l, _ := rawPeer(t, false, acceptor, dialer, refuseAll)
	ctx, cancelCall := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Call(ctx, ask(t, 1), Hop{}, ignore) }()
	f, _ := peer.next()
	cancelCall()
	if err := await(t, done, "Call to return"); !errors.Is(err, envelope.Timeout) || !strings.Contains(err.Error(), "given up by the caller") {
		t.Errorf("call ended with %v", err)
	}
	if err := peer.want(cancel); !errors.Is(err, envelope.Timeout) {
		t.Errorf("cancel says %v", err)
	}
	late := ask(t, 5)
	peer.send(part, first|last, f.call, append(appendLength(nil, late.BinarySize()), late.AppendBinary(nil)...))
	peer.send(end, 0, f.call, nil)
	peer.send(credit, 0, f.call, make([]byte, 4))
	if _, err := pinged(peer, l); err != nil {
		t.Errorf("the link did not survive: %v", err)
	}
	if s := l.Stats(); s.Dropped != 1 || s.Open != 0 || s.Buffered != 0 {
		t.Errorf("%+v", s)
	}
}

// pinged lets l ping the raw peer, which answers: what the raw peer sent before is dealt with.
func pinged(peer *raw, l *Link) (time.Duration, error) {
	type answer struct {
		trip time.Duration
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		trip, err := l.Ping(context.Background())
		got <- answer{trip, err}
	}()
	for {
		f, body, err := peer.read()
		if err != nil {
			return 0, err
		}
		if f.kind == ping && !f.has(ack) {
			peer.send(ping, ack, 0, body)
			a := await(peer.t, got, "the answer to a ping")
			return a.trip, a.err
		}
	}
}

func TestLostBeforeAndAfterHandOver(t *testing.T) {
	for _, row := range []struct {
		name string
		size int
		code envelope.Code
	}{
		{"half the message", 100 << 10, envelope.Unreachable},
		{"all of it", 10, envelope.Timeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			noLeak(t)
			dialer, acceptor := configs()
			acceptor.Window = 4 << 10
			peer, l, ran := rawPeer(t, false, acceptor, dialer, refuseAll)
			done := make(chan error, 1)
			go func() { done <- l.Call(t.Context(), ask(t, row.size), Hop{}, ignore) }()
			peer.next()
			peer.conn.Close()
			if err := await(t, done, "Call to return"); !errors.Is(err, row.code) {
				t.Errorf("call ended with %v; want %s", err, row.code)
			}
			if err := await(t, ran, "Run to return"); !errors.Is(err, envelope.Unreachable) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}
