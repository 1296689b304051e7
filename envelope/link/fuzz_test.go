package link

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func FuzzDecodeFrame(f *testing.F) {
	f.Add(appendFrame(nil, message, first|last, 1, nil))
	f.Add(appendFrame(nil, ping, ack, 0, make([]byte, 8)))
	f.Add([]byte{0, 0, 0, 5, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headLen {
			return
		}
		got, err := decodeHead(b[:headLen])
		if err != nil {
			return
		}
		if again := appendHead(nil, got); !bytes.Equal(again, b[:headLen]) {
			t.Errorf("%x became %x", b[:headLen], again)
		}
	})
}

func FuzzDecodeHop(f *testing.F) {
	f.Add(appendHop(nil, Hop{Deadline: testStart.Add(1500 * time.Millisecond), HopsLeft: 8, Priority: 3, Attempts: 1}, testStart))
	f.Add(appendHop(nil, Hop{}, testStart))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHop(b, testStart)
		if err != nil {
			return
		}
		if h.Priority < 1 || h.Priority > priorities {
			t.Errorf("priority %d", h.Priority)
		}
		again, err := decodeHop(appendHop(nil, h, testStart), testStart)
		if err != nil || again != h {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}

func TestHopRoundsUp(t *testing.T) {
	for _, row := range []struct {
		left time.Duration
		ms   uint32
	}{
		{time.Nanosecond, 1}, {time.Millisecond, 1}, {time.Millisecond + 1, 2}, {0, 0}, {-time.Hour, 0},
		{100 * 24 * time.Hour, noDeadline - 1},
	} {
		if got := remaining(testStart.Add(row.left), testStart); got != row.ms {
			t.Errorf("%v left is written as %d ms, not %d", row.left, got, row.ms)
		}
	}
}

// FuzzHandshake feeds an acceptor bytes in place of a hello.
func FuzzHandshake(f *testing.F) {
	f.Add(appendFrame(nil, hello, 0, 0, []byte(`{"version":"3.0","role":"agent","id":"a"}`)))
	f.Add(appendFrame(nil, goaway, 0, 0, []byte(`{"code":"forbidden"}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, acceptor := configs()
		x, y := newPipe(1 << 20)
		x.Write(b)
		x.w.Close()
		if _, err := Accept(t.Context(), y, acceptor); err == nil {
			t.Error("a link was made without a key")
		}
	})
}

// FuzzLink feeds a link whose handshake was made anything at all, with two of its own calls open. Its coverage differs from run to run: use
// it with -fuzzminimizetime=1x, or all the time goes into minimizing.
func FuzzLink(f *testing.F) {
	e := ask(f, 100)
	answer := append(appendLength(nil, e.BinarySize()), e.AppendBinary(nil)...)
	f.Add(appendFrame(nil, message, first|last, 1, opener(e, Hop{})))
	f.Add(appendFrame(nil, part, first|last|final, 2, answer))
	f.Add(append(appendFrame(nil, part, first|last, 2, answer), appendFrame(nil, end, 0, 2, nil)...))
	f.Add(append(appendFrame(nil, message, first, 1, openerOf(make([]byte, 10), 100, Hop{})), appendFrame(nil, cancel, 0, 1, nil)...))
	f.Add(append(appendFrame(nil, credit, 0, 2, []byte{0, 0, 1, 0}), appendFrame(nil, ping, 0, 0, make([]byte, 8))...))
	f.Add(appendFrame(nil, goaway, 0, 0, []byte(`{"code":"unreachable"}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		dialer, acceptor := configs()
		peer, l, ran := rawPeer(t, true, dialer, acceptor, echo)
		calls := make(chan error, 2)
		for range 2 {
			go func() { calls <- l.Call(context.Background(), e, Hop{}, ignore) }()
			peer.next()
		}
		go io.Copy(io.Discard, peer.in)
		peer.conn.Write(b)
		peer.conn.(conn).w.Close()
		await(t, calls, "a call to end")
		await(t, calls, "a call to end")
		if err := await(t, ran, "Run to return"); err == nil {
			t.Error("Run returned nil")
		}
		if s := l.Stats(); s.Open != 0 || s.Buffered > 2*l.cfg.MaxMessage {
			t.Errorf("left behind: %+v", s)
		}
	})
}

func FuzzUnmarshalCut(f *testing.F) {
	f.Add("text", 10)
	f.Fuzz(func(t *testing.T, text string, places int) {
		e := &envelope.Error{Code: envelope.SchemaError, Text: text, Places: make([]envelope.Place, max(places, 0)%5000)}
		b := encodeError(e)
		if len(b) > maxChunk {
			t.Errorf("%d bytes", len(b))
		}
		if back := envelope.UnmarshalError(b); back.Code != e.Code {
			t.Errorf("%v became %v", e, back)
		}
	})
}
