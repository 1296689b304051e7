package sdk_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/sdk"
)

// answers makes the node answer requests itself; all else goes on as usual.
func (n *fakeNode) answers(reply func(h *envelope.Header) *envelope.Envelope) {
	n.set(func(in *link.Inbound) (bool, error) {
		if in.Envelope.Header.MsgType != envelope.Request {
			return false, nil
		}
		return true, in.SendLast(context.Background(), reply(&in.Envelope.Header))
	})
}

func TestAnswersMustBeProven(t *testing.T) {
	n := newFakeNode(t)
	key, wrong := envelope.GenerateKey(), envelope.GenerateKey()
	n.agents["inventory"] = &fakeSeat{key: key.Public(), descriptor: &envelope.Descriptor{}}
	caller := newAgent(t, "orders", n.server.URL)
	answer := func(by envelope.PrivateKey, change func(*envelope.Header)) func(h *envelope.Header) *envelope.Envelope {
		return func(h *envelope.Header) *envelope.Envelope {
			a := answerTo(h, "inventory")
			change(&a)
			return sealedBy(by, a, `1`)
		}
	}
	keep := func(*envelope.Header) {}
	unsealed := func(h *envelope.Header) *envelope.Envelope {
		e, _ := envelope.New(answerTo(h, "inventory"), []byte(`1`))
		return e
	}
	for name, c := range map[string]struct {
		reply func(*envelope.Header) *envelope.Envelope
		want  error
	}{
		"proven":              {answer(key, keep), nil},
		"wrong key":           {answer(wrong, keep), envelope.BadSeal},
		"node's key":          {answer(n.key, keep), envelope.BadSeal},
		"unsealed":            {unsealed, envelope.BadSeal},
		"of somebody unknown": {answer(key, func(h *envelope.Header) { h.SourceAgent = "nobody" }), envelope.NoRoute},
		"of another agent":    {answer(key, func(h *envelope.Header) { h.SourceAgent = "other" }), envelope.Malformed},
		"to another request":  {answer(key, func(h *envelope.Header) { h.InReplyTo = "m-0" }), envelope.Malformed},
		"to another caller":   {answer(key, func(h *envelope.Header) { h.TargetAgent = "other" }), envelope.Malformed},
		"in another trace":    {answer(key, func(h *envelope.Header) { h.TraceID = "t-0" }), envelope.Malformed},
		"of another type": {answer(key, func(h *envelope.Header) {
			h.MsgType, h.TargetCapability = envelope.Request, "stock.query"
		}), envelope.Malformed},
		"of the node itself": {func(h *envelope.Header) *envelope.Envelope { return n.answer(h, `1`) }, nil},
	} {
		n.answers(c.reply)
		var options []sdk.CallOption
		if name == "of another agent" {
			options = append(options, sdk.ToAgent("inventory"))
		}
		err := caller.Call(short(t), "stock.query", nil, nil, options...)
		if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestAgentWithANewKeyIsBelieved(t *testing.T) {
	n := newFakeNode(t)
	caller := newAgent(t, "orders", n.server.URL)
	for range 2 {
		key := envelope.GenerateKey()
		n.mu.Lock()
		n.agents["inventory"] = &fakeSeat{key: key.Public(), descriptor: &envelope.Descriptor{}}
		n.mu.Unlock()
		n.answers(func(h *envelope.Header) *envelope.Envelope { return sealedBy(key, answerTo(h, "inventory"), `1`) })
		if err := caller.Call(short(t), "stock.query", nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestForgottenAgentRegistersAgain(t *testing.T) {
	n := newFakeNode(t)
	n.set(func(in *link.Inbound) (bool, error) {
		if in.Envelope.Header.MsgType == envelope.Heartbeat {
			return true, envelope.Errorf(envelope.UnknownAgent, envelope.StepRegister, "who?")
		}
		return false, nil
	})
	a := newAgent(t, "inventory", n.server.URL, sdk.WithHeartbeat(time.Second))
	running(t, a)
	n.await("two registrations", func() bool { return n.count(envelope.Register) == 2 })
}

func TestCallerThatTheNodeForgotRegistersAgain(t *testing.T) {
	n := newFakeNode(t)
	caller := newAgent(t, "orders", n.server.URL)
	if err := caller.Call(short(t), "x", nil, nil); !errors.Is(err, envelope.NoRoute) {
		t.Fatal(err)
	}
	n.set(func(in *link.Inbound) (bool, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if in.Envelope.Header.MsgType == envelope.Request && n.count(envelope.Register) < 2 {
			return true, envelope.Errorf(envelope.UnknownAgent, envelope.StepSeal, "who?")
		}
		return false, nil
	})
	if err := caller.Call(short(t), "x", nil, nil); !errors.Is(err, envelope.NoRoute) {
		t.Error(err)
	}
}

func TestRefusedForGood(t *testing.T) {
	n := newFakeNode(t)
	n.authorize = func(p link.Peer) error {
		return envelope.Errorf(envelope.Conflict, envelope.StepRegister, "%s is held by another key", p.ID)
	}
	a := newAgent(t, "inventory", n.server.URL)
	_, ended := running(t, a)
	if err := within(t, ended, "the end of Run"); !errors.Is(err, envelope.Conflict) {
		t.Errorf("Run: %v", err)
	}
	if err := newAgent(t, "orders", n.server.URL).Call(short(t), "x", nil, nil); !errors.Is(err, envelope.Conflict) {
		t.Errorf("Call: %v", err)
	}
}

func TestNoNodeFailsSoon(t *testing.T) {
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, "orders", addr)
	began := time.Now()
	err = a.Call(t.Context(), "x", nil, nil)
	if !errors.Is(err, envelope.Unreachable) || !strings.Contains(err.Error(), addr) || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestSwitch(t *testing.T) {
	n := newFakeNode(t)
	a := offerStock(t, n)
	for on, want := range map[bool]string{false: `"capabilities":[]`, true: `"capabilities":["stock.query"]`} {
		if err := a.Switch("stock.query", on); err != nil {
			t.Fatal(err)
		}
		n.await(want, func() bool { return strings.Contains(n.bodies[len(n.bodies)-1], want) })
	}
	if err := a.Switch("no.such", false); !errors.Is(err, envelope.NoRoute) {
		t.Error(err)
	}
}

func TestMoreCapabilitiesWhileRunning(t *testing.T) {
	n := newFakeNode(t)
	a := offerStock(t, n)
	a.Handle(sdk.Capability{Name: "more", Version: "1.0.0"}, sdk.Func(queryStock))
	n.await("both", func() bool { return len(n.agents["inventory"].descriptor.Capabilities) == 2 })
}

func TestAgentAtItsLimit(t *testing.T) {
	n := newFakeNode(t)
	a := newAgent(t, "slow", n.server.URL, sdk.WithMaxConcurrent(1))
	started, finish := make(chan struct{}), make(chan struct{})
	defer close(finish)
	a.Handle(sdk.Capability{Name: "work", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) {
		close(started)
		<-finish
		return nil, nil
	})
	b := newAgent(t, "between", n.server.URL)
	b.Handle(sdk.Capability{Name: "again", Version: "1.0.0"}, func(ctx context.Context, _ *sdk.Request) (any, error) {
		return nil, b.Call(ctx, "work", nil, nil)
	})
	running(t, a)
	running(t, b)
	n.await("the registrations", func() bool { return n.agents["slow"] != nil && n.agents["between"] != nil })
	caller := newAgent(t, "orders", n.server.URL)
	go caller.Call(short(t), "work", nil, nil)
	within(t, started, "the handler")
	if err := caller.Call(short(t), "work", nil, nil); !errors.Is(err, envelope.Overloaded) {
		t.Errorf("a stranger: %v", err)
	}
	// slow asks between, which asks slow, which runs only one: nobody would ever answer.
	err := a.Call(short(t), "again", nil, nil)
	var own *sdk.AgentError
	if !errors.As(err, &own) || own.Code != string(envelope.Loop) {
		t.Errorf("round in a circle: %v", err)
	}
}

func TestCallsDuringReconnection(t *testing.T) {
	n := newFakeNode(t)
	offerStock(t, n)
	caller := newAgent(t, "orders", n.server.URL)
	var broken atomic.Int32
	for i := range 60 {
		if i%20 == 10 {
			n.breakLinks()
		}
		err := caller.Call(short(t), "stock.query", stockQuery{"S"}, nil)
		// A link may break under a call; the agent may be a moment behind its caller.
		if err != nil && !errors.Is(err, envelope.Timeout) && !errors.Is(err, envelope.NoRoute) && !errors.Is(err, envelope.Unreachable) {
			t.Error(err)
		}
		if err != nil {
			broken.Add(1)
		}
	}
	if broken.Load() > 50 {
		t.Errorf("%d of 60 calls failed", broken.Load())
	}
}

func TestWhatCannotBe(t *testing.T) {
	for name, make := range map[string]func() (*sdk.Agent, error){
		"id":       func() (*sdk.Agent, error) { return sdk.New("no spaces") },
		"scheme":   func() (*sdk.Agent, error) { return sdk.New("a", sdk.WithNode("ftp://x")) },
		"address":  func() (*sdk.Agent, error) { return sdk.New("a", sdk.WithNode("http://")) },
		"beat":     func() (*sdk.Agent, error) { return sdk.New("a", sdk.WithHeartbeat(-time.Second)) },
		"limit":    func() (*sdk.Agent, error) { return sdk.New("a", sdk.WithMaxConcurrent(-1)) },
		"drain":    func() (*sdk.Agent, error) { return sdk.New("a", sdk.WithDrain(-1)) },
		"endpoint": func() (*sdk.Agent, error) { return sdk.New("a", sdk.WithEndpoint(envelope.Endpoint{Type: "http"})) },
		"key":      func() (*sdk.Agent, error) { return sdk.New("a", sdk.WithKeyFile("agent_test.go")) },
	} {
		if a, err := make(); a != nil || !errors.Is(err, envelope.Malformed) {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
	path := filepath.Join(t.TempDir(), "keys", "a.pem")
	a, err := sdk.New("a", sdk.WithKeyFile(path), sdk.WithLogger(quiet()))
	if err != nil {
		t.Fatal(err)
	}
	again, err := sdk.New("a", sdk.WithKeyFile(path))
	if err != nil || again.PublicKey() != a.PublicKey() {
		t.Errorf("the key made is not the key read: %v", err)
	}
	a.Handle(sdk.Capability{Name: "Big", Version: "1"}, sdk.Func(queryStock))
	a.Handle(sdk.Capability{Name: "twice", Version: "1.0.0"}, sdk.Func(queryStock))
	a.Handle(sdk.Capability{Name: "twice", Version: "1.0.0"}, sdk.Func(queryStock))
	err = a.Run(t.Context())
	if !errors.Is(err, envelope.Malformed) || !strings.Contains(err.Error(), "Big") || !strings.Contains(err.Error(), "twice") {
		t.Errorf("Run: %v", err)
	}
	if call := a.Call(t.Context(), "x", nil, nil); !errors.Is(call, envelope.Malformed) {
		t.Errorf("Call: %v", call)
	}
	if err := again.Call(t.Context(), "x", func() {}, nil); !errors.Is(err, envelope.Malformed) {
		t.Errorf("a function as input: %v", err)
	}
}
