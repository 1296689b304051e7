package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestEcho(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	l := run(t, dialer, acceptor, echo)
	for _, size := range []int{0, 1, 100, maxChunk, maxChunk + 1, 300 << 10, 4 << 20} {
		e := ask(t, size)
		parts, err := collect(t.Context(), l.Link, e, Hop{})
		if err != nil || len(parts) != 1 {
			t.Fatalf("%d bytes: %d parts, %v", size, len(parts), err)
		}
		if !parts[0].Same(e) || parts[0].Seal.Sig != e.Seal.Sig {
			t.Errorf("%d bytes: another envelope came back", size)
		}
	}
	if s := l.Stats(); s.Open != 0 || s.Buffered != 0 || s.Dropped != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

func TestManyCalls(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	l := run(t, dialer, acceptor, echo)
	var all sync.WaitGroup
	sealed := ask(t, 0)
	for i := range 1000 {
		all.Go(func() {
			e := carrying(sealed, i)
			parts, err := collect(t.Context(), l.Link, e, Hop{Priority: i%9 + 1})
			if err != nil || len(parts) != 1 || !parts[0].Same(e) {
				t.Errorf("call %d: %d parts, %v", i, len(parts), err)
			}
		})
	}
	all.Wait()
	eventually(t, "no call to be open", func() bool { return l.other.Stats().OpenInbound == 0 })
	if s := l.other.Stats(); s.Served != 1000 || s.Buffered != 0 {
		t.Errorf("acceptor: %+v", s)
	}
}

func TestStream(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	l := run(t, dialer, acceptor, func(ctx context.Context, in *Inbound) error {
		for i := range 500 {
			if err := in.Send(ctx, numbered(in.Envelope, i)); err != nil {
				return err
			}
		}
		return nil
	})
	parts, err := collect(t.Context(), l.Link, ask(t, 10), Hop{})
	if err != nil || len(parts) != 500 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for i, p := range parts {
		if string(p.Payload) != fmt.Sprintf("%04000d", i) {
			t.Fatalf("part %d is %s", i, p.Payload[3990:])
		}
	}
}

func numbered(e *envelope.Envelope, i int) *envelope.Envelope {
	return &envelope.Envelope{RawHeader: e.RawHeader, Seal: e.Seal, Payload: fmt.Appendf(nil, "%04000d", i)}
}

func TestHandlerErrors(t *testing.T) {
	noLeak(t)
	refusal := envelope.Errorf(envelope.Forbidden, envelope.StepPermission, "not you")
	for _, row := range []struct {
		name    string
		handler Handler
		parts   int
		code    envelope.Code
	}{
		{"coded", func(context.Context, *Inbound) error { return refusal }, 0, envelope.Forbidden},
		{"bare", func(context.Context, *Inbound) error { return errors.New("disk full") }, 0, envelope.Internal},
		{"panic", func(context.Context, *Inbound) error { panic("boom") }, 0, envelope.Internal},
		{"after a part", func(ctx context.Context, in *Inbound) error { in.Send(ctx, in.Envelope); return refusal }, 1, envelope.Forbidden},
		{"nothing", func(context.Context, *Inbound) error { return nil }, 0, ""},
		{"huge", func(context.Context, *Inbound) error {
			return &envelope.Error{Code: envelope.SchemaError, Text: "x", Places: make([]envelope.Place, 5000)}
		}, 0, envelope.SchemaError},
	} {
		t.Run(row.name, func(t *testing.T) {
			dialer, acceptor := configs()
			l := run(t, dialer, acceptor, row.handler)
			parts, err := collect(t.Context(), l.Link, ask(t, 10), Hop{})
			if len(parts) != row.parts || row.code == "" && err != nil || row.code != "" && !errors.Is(err, row.code) {
				t.Errorf("%d parts, error %v; want %d, %q", len(parts), err, row.parts, row.code)
			}
			if _, err := l.Ping(t.Context()); err != nil {
				t.Errorf("the link did not survive: %v", err)
			}
		})
	}
}

func TestBeforeAndAfterRun(t *testing.T) {
	noLeak(t)
	dialer, acceptor := configs()
	a, b := newPipe(64 << 10)
	dialed, accepted := shake(t, a, b, dialer, acceptor)
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := dialed.link.Call(soon, ask(t, 1), Hop{}, ignore); !errors.Is(err, envelope.Expired) {
		t.Errorf("a call before Run waits for it: %v", err)
	}
	dialed.link.Close(nil)
	if err := dialed.link.Run(t.Context(), echo); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("Run after Close: %v", err)
	}
	if err := dialed.link.Call(t.Context(), ask(t, 1), Hop{}, ignore); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("call after Close: %v", err)
	}
	err := accepted.link.Run(t.Context(), echo)
	if !errors.Is(err, envelope.Unreachable) || err.(*envelope.Error).Text != "alice closes the link" {
		t.Errorf("the peer was not told: %v", err)
	}
}
