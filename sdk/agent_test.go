package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

type stockQuery struct {
	SKU string `json:"sku"`
}

type stock struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

var stockCapability = sdk.Capability{
	Name: "stock.query", Version: "1.0.0", Effect: envelope.Read,
	InputSchema: sdk.Schema(`{"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}`),
}

func queryStock(_ context.Context, in stockQuery) (stock, error) { return stock{in.SKU, 42}, nil }

func offerStock(t *testing.T, n *fakeNode) *sdk.Agent {
	t.Helper()
	a := newAgent(t, "inventory", n.server.URL)
	a.Handle(stockCapability, sdk.Func(queryStock))
	running(t, a)
	n.await("a registration", func() bool { return n.agents["inventory"] != nil })
	return a
}

func TestCall(t *testing.T) {
	n := newFakeNode(t)
	offerStock(t, n)
	caller := newAgent(t, "orders", n.server.URL)
	var out stock
	if err := caller.Call(short(t), "stock.query", stockQuery{"SKU-1"}, &out); err != nil {
		t.Fatal(err)
	}
	if want := (stock{"SKU-1", 42}); out != want {
		t.Errorf("got %v, want %v", out, want)
	}
}

func TestAgentsOwnErrors(t *testing.T) {
	n := newFakeNode(t)
	a := newAgent(t, "inventory", n.server.URL)
	how := map[string]error{
		"own":     &sdk.AgentError{Code: "out_of_stock", Text: "none left"},
		"raw":     &sdk.AgentError{Raw: sdk.Schema(`{"code":"x","text":"y","more":7}`)},
		"plain":   errors.New("disk full"),
		"coded":   fmt.Errorf("asking further: %w", envelope.Errorf(envelope.Timeout, envelope.StepCall, "too slow")),
		"verbose": errors.New(strings.Repeat("\x01ö", 5000)),
	}
	a.Handle(sdk.Capability{Name: "fail", Version: "1.0.0"}, sdk.Func(func(_ context.Context, which string) (any, error) {
		if which == "panic" {
			panic("secret detail")
		}
		return nil, how[which]
	}))
	running(t, a)
	n.await("a registration", func() bool { return n.agents["inventory"] != nil })
	caller := newAgent(t, "orders", n.server.URL)
	for which, want := range map[string][2]string{
		"own":     {"out_of_stock", "none left"},
		"raw":     {"x", "y"},
		"plain":   {"agent_error", "disk full"},
		"coded":   {"timeout", "too slow"},
		"panic":   {"agent_error", "panicked"},
		"verbose": {"agent_error", "ö"},
	} {
		err := caller.Call(short(t), "fail", which, nil)
		var own *sdk.AgentError
		if !errors.As(err, &own) || !errors.Is(err, envelope.AgentFailed) {
			t.Errorf("%s: %v is no *AgentError", which, err)
			continue
		}
		if own.Code != want[0] || !strings.Contains(own.Text, want[1]) && which != "verbose" || own.Agent != "inventory" {
			t.Errorf("%s: got %+v, want %v", which, own, want)
		}
		if strings.Contains(own.Text, "secret") {
			t.Errorf("%s: a panic's value reached the caller: %v", which, own)
		}
		if which == "raw" && !strings.Contains(string(own.Raw), `"more":7`) {
			t.Errorf("raw object became %s", own.Raw)
		}
	}
}

func TestEmptyAnswersAreAnswers(t *testing.T) {
	n := newFakeNode(t)
	a := newAgent(t, "echo", n.server.URL)
	a.Handle(sdk.Capability{Name: "echo", Version: "1.0.0"}, func(_ context.Context, req *sdk.Request) (any, error) {
		return sdk.Schema(req.Payload), nil
	})
	a.Handle(sdk.Capability{Name: "nil", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) { return nil, nil })
	running(t, a)
	n.await("a registration", func() bool { return n.agents["echo"] != nil })
	caller := newAgent(t, "orders", n.server.URL)
	for _, payload := range []string{``, `{}`, `null`, `""`, `{"b": 1,  "a": 2}`} {
		r, err := caller.Do(short(t), sdk.Call{Capability: "echo", Input: sdk.Schema(payload)})
		if err != nil || string(r.Payload) != payload {
			t.Errorf("%q came back as %v, %v", payload, r, err)
		}
	}
	if r, err := caller.Do(short(t), sdk.Call{Capability: "nil"}); err != nil || len(r.Payload) != 0 || r.Agent != "echo" {
		t.Errorf("nil came back as %+v, %v", r, err)
	}
}

func TestStream(t *testing.T) {
	n := newFakeNode(t)
	a := newAgent(t, "counter", n.server.URL)
	gone := make(chan error, 1)
	a.HandleStream(sdk.Capability{Name: "count", Version: "1.0.0"}, func(ctx context.Context, req *sdk.Request, send func(any) error) error {
		var to int
		if err := req.Decode(&to); err != nil {
			return err
		}
		for i := 0; i < to || to < 0; i++ {
			if err := send(i); err != nil {
				gone <- err
				return err
			}
		}
		if to == 3 {
			return errors.New("three is enough")
		}
		return nil
	})
	running(t, a)
	n.await("a registration", func() bool { return n.agents["counter"] != nil })
	caller := newAgent(t, "orders", n.server.URL)
	count := func(to, leaveAt int) (got int, last error) {
		for part, err := range caller.Stream(short(t), "count", to) {
			if err != nil {
				last = err
				continue
			}
			var i int
			if part.Decode(&i); len(part.Payload) > 0 && i != got {
				t.Errorf("part %d is %d", got, i)
			}
			if got++; got == leaveAt {
				break
			}
		}
		return got, last
	}
	if got, err := count(200, -1); got != 200 || err != nil {
		t.Errorf("200 parts: got %d, %v", got, err)
	}
	if got, err := count(3, -1); got != 3 || !errors.Is(err, envelope.AgentFailed) {
		t.Errorf("3 parts and an error: got %d, %v", got, err)
	}
	if got, err := count(0, -1); got != 1 || err != nil {
		t.Errorf("no part is one without payload: got %d, %v", got, err)
	}
	if got, err := count(-1, 5); got != 5 || err != nil {
		t.Errorf("left after 5: got %d, %v", got, err)
	}
	within(t, gone, "the handler's send after the caller had left")
	if _, err := caller.Do(short(t), sdk.Call{Capability: "count", Input: 200}); !errors.Is(err, envelope.Unsupported) {
		t.Errorf("Do on many parts: %v", err)
	}
}
