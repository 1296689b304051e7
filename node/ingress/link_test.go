package ingress

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

func TestCallsOverALink(t *testing.T) {
	w := start(t)
	server := w.agent("echoer", echo, "echo", "count")
	caller, err := w.dial("caller", envelope.GenerateKey(), link.Agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := caller.ask(caller.request("echo", `{"a": 1}`))
	if err != nil || len(parts) != 1 || string(parts[0].Payload) != `{"a": 1}` || parts[0].Verify(server.key.Public()) != nil {
		t.Fatalf("%v %v", parts, err)
	}
	_, err = caller.ask(caller.request("nobody.has.it", "1"))
	if e := envelope.AsError(err); !errors.Is(err, envelope.NoRoute) || e.TraceID == "" || e.Hint == "" {
		t.Errorf("%v", err)
	}
	h := caller.header(envelope.Broadcast)
	h.TargetCapability = "echo"
	parts, err = caller.ask(caller.seal(h, "1"))
	if err != nil || len(parts) != 1 || parts[0].Header.SourceAgent != w.id {
		t.Errorf("%v %v", parts, err)
	}
	if parts, err = caller.ask(caller.seal(caller.header(envelope.Heartbeat), "{}")); err != nil || len(parts) != 1 {
		t.Errorf("%v %v", parts, err)
	}
}

func TestALinkSpeaksForItsAgentOnly(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	victim := w.caller("victim")
	peer, err := w.dial("peer", envelope.GenerateKey(), link.Agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*envelope.Envelope{victim.request("echo", "1"), victim.registration(victim.descriptor("x")), victim.seal(victim.header(envelope.Heartbeat), "{}")} {
		if _, err := peer.ask(e); !errors.Is(err, envelope.Forbidden) {
			t.Errorf("%s: %v", e.Header.MsgType, err)
		}
	}
}

func TestLinksThatAreRefused(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	if _, err := w.dial("echoer", envelope.GenerateKey(), link.Agent, nil); !errors.Is(err, envelope.Conflict) {
		t.Errorf("another key: %v", err)
	}
	if _, err := w.dial("n", envelope.GenerateKey(), link.Node, nil); !errors.Is(err, envelope.Unsupported) {
		t.Errorf("a node: %v", err)
	}
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol", link.Subprotocol}
	without := func(name, value string) (out []string) {
		for i := 0; i < len(upgrade); i += 2 {
			switch {
			case upgrade[i] != name:
				out = append(out, upgrade[i], upgrade[i+1])
			case value != "":
				out = append(out, name, value)
			}
		}
		return out
	}
	for _, c := range []struct {
		headers []string
		code    envelope.Code
		status  int
	}{
		{nil, envelope.Malformed, 400},
		{without("Upgrade", ""), envelope.Malformed, 400},
		{without("Upgrade", "h2c"), envelope.Malformed, 400},
		{without("Connection", ""), envelope.Malformed, 400},
		{without("Sec-WebSocket-Version", "8"), envelope.Malformed, 400},
		{without("Sec-WebSocket-Key", ""), envelope.Malformed, 400},
		{without("Sec-WebSocket-Key", "short"), envelope.Malformed, 400},
		{without("Sec-WebSocket-Protocol", ""), envelope.Unsupported, 501},
		{without("Sec-WebSocket-Protocol", "chat"), envelope.Unsupported, 501},
		{append(without("", ""), "Origin", "https://evil.example"), envelope.Forbidden, 403},
	} {
		w.send("GET", "/v1/link", nil, c.headers...).problem(t, c.code, c.status)
	}
	await(t, "the refused links' places to be free", func() bool { return w.server.Links() == 1 })
}

func TestTextIsNoLink(t *testing.T) {
	w := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+w.addr+"/v1/link", &websocket.DialOptions{Subprotocols: []string{link.Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, _, err = ws.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Errorf("the link stays open: %v", err)
	}
}

func TestTooManyLinks(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.MaxLinks = 2 })
	for _, id := range []string{"a", "b"} {
		if _, err := w.dial(id, envelope.GenerateKey(), link.Agent, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, resp, err := websocket.Dial(ctx, "ws://"+w.addr+"/v1/link", &websocket.DialOptions{Subprotocols: []string{link.Subprotocol}})
	if err == nil {
		t.Fatal("a third link was accepted")
	}
	read(t, resp).problem(t, envelope.Overloaded, 429)
}

func TestLossOfALinkIsTold(t *testing.T) {
	w := start(t)
	p := w.agent("echoer", echo, "echo")
	p.link.Close(nil)
	await(t, "the registry to be told", func() bool {
		w.seats.mu.Lock()
		defer w.seats.mu.Unlock()
		return len(w.seats.downs) == 1 && w.seats.downs[0] == "echoer"
	})
	await(t, "the place to be free", func() bool { return w.server.Links() == 0 })
	w.server.links.mu.Lock()
	defer w.server.links.mu.Unlock()
	if n := len(w.server.links.open); n != 0 {
		t.Errorf("%d links are still known", n)
	}
	w.post("/v1/messages", w.caller("caller").request("echo", "1")).problem(t, envelope.NoRoute, 404)
}

// Cancelling on a link gives the call up at the agent.
func TestCancelOverALink(t *testing.T) {
	w := start(t)
	asked, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	w.agent("sleeper", func(ctx context.Context, _ *envelope.Envelope, _ func(string) error) error {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return context.Cause(ctx)
	}, "sleep")
	caller, err := w.dial("caller", envelope.GenerateKey(), link.Agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		failed <- caller.link.Call(ctx, caller.request("sleep", "1"), link.Hop{Deadline: time.Now().Add(soon)}, func(*envelope.Envelope) error { return nil })
	}()
	wait(t, asked, "the agent to be asked")
	cancel()
	wait(t, ended, "the agent to be told")
	if err := wait(t, failed, "the caller"); err == nil {
		t.Error("the call succeeded")
	}
}

func TestRouterTakesNoAgents(t *testing.T) {
	w := start(t, func(w *world) { w.registry = nil })
	p := &party{world: w, id: "agent", key: envelope.GenerateKey()}
	if got := w.post("/v1/agents", p.registration(p.descriptor())).problem(t, envelope.Unsupported, 501); !strings.Contains(got.Detail, "router") {
		t.Errorf("%s", got.Detail)
	}
	w.send("GET", "/v1/link", nil).problem(t, envelope.Unsupported, 501)
}

// A broken part of the node costs one call, and the log says where.
func TestPanicsAreContained(t *testing.T) {
	w := start(t)
	linked, err := w.dial("linked", envelope.GenerateKey(), link.Agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.seats.panics = true
	p := &party{world: w, id: "agent", key: envelope.GenerateKey()}
	e := p.registration(p.descriptor())
	got := w.post("/v1/agents", e).problem(t, envelope.Internal, http.StatusInternalServerError)
	if strings.Contains(got.Detail, "registry is broken") || got.TraceID != e.Header.TraceID {
		t.Errorf("%+v", got)
	}
	if log := w.log.String(); !strings.Contains(log, "the registry is broken") || !strings.Contains(log, "seats_test.go") || !strings.Contains(log, e.Header.TraceID) {
		t.Errorf("log: %s", log)
	}
	if _, err := linked.ask(linked.registration(linked.descriptor())); !errors.Is(err, envelope.Internal) {
		t.Errorf("over a link: %v", err)
	}
	w.seats.panics = false
	w.post("/v1/agents", p.registration(p.descriptor())).envelope(t)
}

// A call that was on its way when the node began to leave is refused, not started.
func TestCallOverALinkAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	wait(t, w.server.calls.shut(), "the gate to be shut")
	if err := w.server.inbound(t.Context(), nil, nil, netip.Addr{}); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("%v", err)
	}
}
