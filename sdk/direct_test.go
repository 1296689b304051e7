package sdk_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// httpAgent is an agent behind a web server of its own.
func httpAgent(t *testing.T, id string, n *realNode, options ...sdk.Option) (a *sdk.Agent, server *httptest.Server) {
	var handler http.Handler
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	options = append(options, sdk.WithEndpoint(envelope.Endpoint{Type: envelope.HTTPEndpoint, URL: server.URL + "/rpc"}))
	a = newAgent(t, id, n.url(), options...)
	handler = a.HTTPHandler()
	return a, server
}

func TestDirect(t *testing.T) {
	n := startNode(t)
	a, server := httpAgent(t, "inventory", n)
	a.Handle(stockCapability, sdk.Func(queryStock))
	a.HandleStream(sdk.Capability{Name: "count", Version: "1.0.0"}, func(_ context.Context, _ *sdk.Request, send func(any) error) error {
		for i := range 3 {
			if err := send(i); err != nil {
				return err
			}
		}
		return errors.New("three is enough")
	})
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	candidates, err := caller.Lookup(short(t), "stock.query")
	if err != nil || len(candidates) != 1 {
		t.Fatalf("%v, %v", candidates, err)
	}
	c := candidates[0]
	if c.Agent != "inventory" || c.Endpoint.URL != server.URL+"/rpc" || c.Key != a.PublicKey() || c.Score < 5 || len(c.Ticket) == 0 {
		t.Errorf("candidate %+v", c)
	}
	for _, direct := range []bool{true, false, true} {
		r, err := caller.Do(short(t), sdk.Call{Capability: "stock.query", Input: stockQuery{"S"}, Direct: direct})
		if err != nil || r.Direct != direct || !strings.Contains(string(r.Payload), "42") {
			t.Errorf("direct %v: %+v, %v", direct, r, err)
		}
	}
	got := 0
	for part, err := range caller.Stream(short(t), "count", nil, sdk.Direct()) {
		if err == nil && part.Direct {
			got++
		} else if !errors.Is(err, envelope.AgentFailed) {
			t.Errorf("after %d parts: %v", got, err)
		}
	}
	if got != 3 {
		t.Errorf("%d parts came direct", got)
	}
	err = caller.Call(short(t), "stock.query", stockQuery{"S"}, nil, sdk.Direct(), sdk.MsgID("m-1"))
	again := caller.Call(short(t), "stock.query", stockQuery{"S"}, nil, sdk.Direct(), sdk.MsgID("m-1"))
	if err != nil || !errors.Is(again, envelope.Duplicate) {
		t.Errorf("the same msg_id: %v, then %v", err, again)
	}
}

func TestDirectFallsBack(t *testing.T) {
	n := startNode(t)
	a, server := httpAgent(t, "inventory", n)
	a.Handle(stockCapability, sdk.Func(queryStock))
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	b := newAgent(t, "spare", n.url()) // on a link: not for direct calls
	b.Handle(stockCapability, sdk.Func(queryStock))
	serving(t, b)
	server.Close()
	r, err := caller.Do(short(t), sdk.Call{Capability: "stock.query", Input: stockQuery{"S"}, Direct: true})
	if err != nil || r.Agent != "spare" || r.Direct {
		t.Errorf("got %+v, %v", r, err)
	}
}
