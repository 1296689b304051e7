package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestHandshake(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	a, b := net.Pipe() // synchronous: neither side may write while the other does
	dialed, accepted := shake(t, a, b, dialer, acceptor)
	if dialed.err != nil || accepted.err != nil {
		t.Fatal(dialed.err, accepted.err)
	}
	defer a.Close()
	for _, row := range []struct{ got, want Peer }{
		{dialed.link.Peer(), Peer{Role: Node, ID: "node-1", Key: key(2).Public()}},
		{accepted.link.Peer(), Peer{Role: Agent, ID: "alice", Key: key(1).Public()}},
	} {
		if offset := row.got.ClockOffset; offset > time.Second || offset < -time.Minute {
			t.Errorf("clock offset %v", offset)
		}
		row.got.ClockOffset = 0
		if row.got != row.want {
			t.Errorf("peer %+v; want %+v", row.got, row.want)
		}
	}
}

func TestAuthorizeRefuses(t *testing.T) {
	refusal := envelope.Errorf(envelope.Conflict, envelope.StepLink, "alice is held by another key")
	refuse := func(p Peer) error {
		if p.Key.IsZero() {
			t.Error("judged without a key")
		}
		return refusal
	}
	t.Run("acceptor", func(t *testing.T) {
		noLeak(t)
		dialer, acceptor := configs()
		acceptor.Authorize = refuse
		a, b := newPipe(1 << 20)
		dialed, accepted := shake(t, a, b, dialer, acceptor)
		if dialed.err == nil || dialed.err.Error() != refusal.Error() || !errors.Is(accepted.err, envelope.Conflict) {
			t.Errorf("dialer: %v\nacceptor: %v", dialed.err, accepted.err)
		}
	})
	t.Run("dialer", func(t *testing.T) {
		noLeak(t)
		dialer, acceptor := configs()
		dialer.Authorize = refuse
		a, b := newPipe(1 << 20)
		dialed, accepted := shake(t, a, b, dialer, acceptor)
		if !errors.Is(dialed.err, envelope.Conflict) || accepted.err != nil {
			t.Fatalf("dialer: %v\nacceptor: %v", dialed.err, accepted.err)
		}
		if err := accepted.link.Run(t.Context(), echo); err == nil || err.Error() != refusal.Error() {
			t.Errorf("the acceptor was told %v", err)
		}
	})
}

// tamper changes what is read: the nth frame, counted from 0.
type tamper struct {
	conn
	n      int
	change func(body []byte) []byte
	queue  bytes.Buffer
}

func (c *tamper) Read(p []byte) (int, error) {
	if c.queue.Len() == 0 {
		var head [headLen]byte
		if _, err := io.ReadFull(c.conn, head[:]); err != nil {
			return 0, err
		}
		f, err := decodeHead(head[:])
		if err != nil {
			return 0, err
		}
		body := make([]byte, f.size)
		if _, err := io.ReadFull(c.conn, body); err != nil {
			return 0, err
		}
		if c.n == 0 {
			body = c.change(body)
		}
		c.n--
		c.queue.Write(appendFrame(nil, f.kind, f.flags, f.call, body))
	}
	return c.queue.Read(p)
}

func TestHandshakeTampered(t *testing.T) {
	replace := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				t.Errorf("no %s in %s", old, b)
			}
			return bytes.Replace(b, []byte(old), []byte(new), 1)
		}
	}
	flip := func(b []byte) []byte {
		at := len(`{"sig":"`)
		b[at] = "AB"[b[at]%2] // 'A' is odd
		return b
	}
	for _, row := range []struct {
		name   string
		frame  int
		change func([]byte) []byte
		code   envelope.Code
		text   string
	}{
		{"proof", 1, flip, envelope.BadSeal, "does not show that"},
		{"window in the hello", 0, replace(`"window":262144`, `"window":262143`), envelope.BadSeal, "does not show that"},
		{"version", 0, replace(`"3.0"`, `"9.9"`), envelope.Unsupported, `version is "9.9"`},
		{"role", 0, replace(`"role":"`, `"role":"x`), envelope.Malformed, "role is"},
		{"id", 0, replace(`"id":"`, `"id":" `), envelope.Malformed, "id has"},
		{"small window", 0, replace(`"window":262144`, `"window":1`), envelope.Malformed, "window is 1"},
		{"no calls", 0, replace(`"max_calls":1024`, `"max_calls":0`), envelope.Malformed, "max_calls 0"},
		{"nonce", 0, replace(`"nonce":"`, `"nonce":"AAAA`), envelope.Malformed, "nonce is 35 bytes"},
		{"no key", 0, replace(`"key":`, `"yek":`), envelope.Malformed, "key is missing"},
		{"no JSON", 0, replace(`{`, ``), envelope.Malformed, "cannot be read"},
		{"long", 0, func(b []byte) []byte { return make([]byte, maxHandshake+1) }, envelope.Malformed, "the limit is 4096"},
	} {
		for _, side := range []string{"dialer", "acceptor"} {
			t.Run(row.name+" to "+side, func(t *testing.T) {
				noLeak(t)
				dialer, acceptor := configs()
				a, b := newPipe(1 << 20)
				var x, y io.ReadWriteCloser = a, b
				if side == "dialer" {
					x = &tamper{conn: a, n: row.frame, change: row.change}
				} else {
					y = &tamper{conn: b, n: row.frame, change: row.change}
				}
				dialed, accepted := shake(t, x, y, dialer, acceptor)
				found, told := dialed.err, accepted.err
				if side == "acceptor" {
					found, told = told, found
				}
				if told == nil && side == "dialer" { // the acceptor was done already
					told = accepted.link.Run(t.Context(), echo)
				}
				if !errors.Is(found, row.code) && !errors.Is(told, row.code) {
					t.Errorf("found %v, told %v; want %s", found, told, row.code)
				}
				if all := found.Error() + told.Error(); !strings.Contains(all, row.text) {
					t.Errorf("found %v, told %v; want %q", found, told, row.text)
				}
			})
		}
	}
}

// reflect gives a dialer its own hello back.
func TestReflectedHello(t *testing.T) {
	noLeak(t)
	dialer, _ := configs()
	a, b := newPipe(1 << 20)
	go func() {
		f := make([]byte, 4096)
		n, _ := b.Read(f)
		b.Write(f[:n])
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := Dial(ctx, a, dialer); !errors.Is(err, envelope.Malformed) || !strings.Contains(err.Error(), "reflected") {
		t.Errorf("%v", err)
	}
}

func TestHandshakeGivenUp(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	for name, open := range map[string]func(context.Context, io.ReadWriteCloser) error{
		"dial":   func(ctx context.Context, c io.ReadWriteCloser) error { _, err := Dial(ctx, c, dialer); return err },
		"accept": func(ctx context.Context, c io.ReadWriteCloser) error { _, err := Accept(ctx, c, acceptor); return err },
	} {
		a, b := net.Pipe() // nobody reads, nobody writes
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- open(ctx, a) }()
		cancel()
		if err := await(t, done, name); !errors.Is(err, envelope.Unreachable) {
			t.Errorf("%s: %v", name, err)
		}
		b.Close()
	}
	a, b := newPipe(10)
	b.Close()
	if _, err := Dial(t.Context(), a, dialer); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("stream closed: %v", err)
	}
}
