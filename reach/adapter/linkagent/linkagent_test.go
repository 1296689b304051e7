package linkagent

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/reach"
)

const patience = 10 * time.Second

// pair is an adapter and the agent at the other end of its link, over a real WebSocket.
func pair(t *testing.T, serve link.Handler) *Agent {
	t.Helper()
	nodeEnd := make(chan *link.Link, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{link.Subprotocol}})
		if err != nil {
			t.Error(err)
			return
		}
		l, err := link.Accept(r.Context(), link.WebSocket(ws), link.Config{Role: link.Node, ID: "node", Key: envelope.GenerateKey()})
		if err != nil {
			t.Error(err)
			return
		}
		nodeEnd <- l
		_ = l.Run(r.Context(), func(context.Context, *link.Inbound) error { return nil })
	}))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, s.URL, &websocket.DialOptions{Subprotocols: []string{link.Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.Dial(ctx, link.WebSocket(ws), link.Config{Role: link.Agent, ID: "stock", Key: envelope.GenerateKey()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.Run(context.Background(), serve) }()
	t.Cleanup(func() { l.Close(nil); <-ended; s.Close() })
	return New(<-nodeEnd)
}

func request(t *testing.T) *reach.Message {
	t.Helper()
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), MsgType: envelope.Request, SourceAgent: "orders", TargetAgent: "stock", Priority: 2,
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return &reach.Message{Envelope: e, HopsLeft: 3, Attempts: 1}
}

func TestCall(t *testing.T) {
	m := request(t)
	hops := make(chan link.Hop, 1)
	a := pair(t, func(ctx context.Context, in *link.Inbound) error {
		hops <- in.Hop
		if !in.Envelope.Same(m.Envelope) {
			t.Errorf("got %s", in.Envelope.RawHeader)
		}
		if err := in.Send(ctx, in.Envelope); err != nil {
			return err
		}
		return in.SendLast(ctx, in.Envelope)
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	parts := 0
	if err := a.Call(ctx, m, func(*envelope.Envelope) error { parts++; return nil }); err != nil || parts != 2 {
		t.Fatal(parts, err)
	}
	hop := <-hops
	if left := time.Until(hop.Deadline); hop.HopsLeft != 3 || hop.Priority != 2 || hop.Attempts != 1 || left <= 0 || left > patience {
		t.Fatalf("%+v", hop)
	}
}

func TestEnds(t *testing.T) {
	arrived := make(chan struct{}, 1)
	a := pair(t, func(ctx context.Context, _ *link.Inbound) error {
		arrived <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	nothing := func(*envelope.Envelope) error { return nil }
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if err := a.Call(ctx, request(t), nothing); !errors.Is(err, envelope.Timeout) || errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	<-arrived
	ctx, cancel = context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.Call(ctx, request(t), nothing) }()
	<-arrived
	cancel()
	if err := <-ended; !errors.Is(err, envelope.Timeout) || !errors.Is(err, context.Canceled) || envelope.AsError(err).Code != envelope.Timeout {
		t.Fatal(err)
	}
	go func() { ended <- a.Call(context.Background(), request(t), nothing) }()
	<-arrived
	a.link.Close(nil)
	if err := <-ended; !errors.Is(err, envelope.Timeout) {
		t.Fatal(err)
	}
	if err := a.Call(context.Background(), request(t), nothing); !errors.Is(err, envelope.Unreachable) {
		t.Fatal(err)
	}
	if err := a.Probe(context.Background()); err == nil {
		t.Fatal("a dead link answered")
	}
}
