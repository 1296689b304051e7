package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

type Query struct {
	SKU string `json:"sku"`
}

type Stock struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// The examples start a node of their own. With one at the default address, WithNode is not needed.
func exampleNode() (address string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	n, err := newRealNode(dir)
	if err != nil {
		log.Fatal(err)
	}
	return n.url(), func() { n.kill(); os.RemoveAll(dir) }
}

// inventory is an agent that answers stock.query.
func inventory(ctx context.Context, node, id string, options ...sdk.Option) *sdk.Agent {
	agent, err := sdk.New(id, append(options, sdk.WithNode(node), sdk.WithLogger(quiet()))...)
	if err != nil {
		log.Fatal(err)
	}
	agent.Handle(sdk.Capability{Name: "stock.query", Version: "1.0.0", Effect: envelope.Read},
		sdk.Func(func(_ context.Context, q Query) (Stock, error) { return Stock{q.SKU, 42}, nil }))
	if err := agent.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	return agent
}

// Two agents: one answers, one asks. Neither knows where the other is.
func Example() {
	node, stop := exampleNode()
	defer stop()
	ctx := context.Background()

	inventory, err := sdk.New("inventory-query-agent", sdk.WithNode(node), sdk.WithLogger(quiet()))
	if err != nil {
		log.Fatal(err)
	}
	inventory.Handle(sdk.Capability{
		Name: "stock.query", Version: "1.0.0", Effect: envelope.Read,
		InputSchema: sdk.Schema(`{"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}`),
	}, func(ctx context.Context, req *sdk.Request) (any, error) {
		var q Query
		if err := req.Decode(&q); err != nil {
			return nil, err
		}
		return Stock{q.SKU, 42}, nil
	})
	go inventory.Run(ctx) // until ctx ends; then it finishes what runs, and leaves
	defer inventory.Close()
	if err := inventory.Ready(ctx); err != nil {
		log.Fatal(err)
	}

	orders, err := sdk.New("order-processing-agent", sdk.WithNode(node), sdk.WithLogger(quiet()))
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close()
	var stock Stock
	if err := orders.Call(ctx, "stock.query", Query{"SKU-88213"}, &stock); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stock.SKU, stock.Quantity)

	err = orders.Call(ctx, "stock.query", "not an object", nil)
	fmt.Println(errors.Is(err, envelope.SchemaError))
	err = orders.Call(ctx, "stock.order", nil, nil)
	fmt.Println(errors.Is(err, envelope.NoRoute))
	// Output:
	// SKU-88213 42
	// true
	// true
}

// An agent's own errors arrive with its own code.
func ExampleAgentError() {
	node, stop := exampleNode()
	defer stop()
	ctx := context.Background()
	agent, err := sdk.New("inventory", sdk.WithNode(node), sdk.WithLogger(quiet()))
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	agent.Handle(sdk.Capability{Name: "stock.reserve", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) {
		return nil, &sdk.AgentError{Code: "out_of_stock", Text: "SKU-1 comes back on Monday"}
	})
	if err := agent.Ready(ctx); err != nil {
		log.Fatal(err)
	}

	err = agent.Call(ctx, "stock.reserve", Query{"SKU-1"}, nil)
	var own *sdk.AgentError
	if errors.As(err, &own) {
		fmt.Println(own.Agent, own.Code, own.Text)
	}
	// Output: inventory out_of_stock SKU-1 comes back on Monday
}

// The whole answer tells who gave it.
func ExampleAgent_Do() {
	node, stop := exampleNode()
	defer stop()
	ctx := context.Background()
	agent := inventory(ctx, node, "inventory")
	defer agent.Close()

	answer, err := agent.Do(ctx, sdk.Call{Capability: "stock.query@^1.0", Input: Query{"SKU-1"}, Trace: "trace-20250605-001"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Agent, answer.Header.TraceID, string(answer.Payload))
	// Output: inventory trace-20250605-001 {"sku":"SKU-1","quantity":42}
}

// An answer in parts.
func ExampleAgent_Stream() {
	node, stop := exampleNode()
	defer stop()
	ctx := context.Background()
	agent, err := sdk.New("writer", sdk.WithNode(node), sdk.WithLogger(quiet()))
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	agent.HandleStream(sdk.Capability{Name: "text.write", Version: "1.0.0"}, func(_ context.Context, _ *sdk.Request, send func(any) error) error {
		for _, word := range []string{"once", "upon", "a", "time"} {
			if err := send(word); err != nil {
				return err
			}
		}
		return nil
	})
	if err := agent.Ready(ctx); err != nil {
		log.Fatal(err)
	}

	for part, err := range agent.Stream(ctx, "text.write", nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(part.Payload))
	}
	// Output:
	// "once"
	// "upon"
	// "a"
	// "time"
}

// All agents of a capability, at once.
func ExampleAgent_Broadcast() {
	node, stop := exampleNode()
	defer stop()
	ctx := context.Background()
	for _, id := range []string{"warehouse-north", "warehouse-south"} {
		defer inventory(ctx, node, id).Close()
	}
	caller, err := sdk.New("orders", sdk.WithNode(node), sdk.WithLogger(quiet()))
	if err != nil {
		log.Fatal(err)
	}
	defer caller.Close()

	outcomes, err := caller.Broadcast(ctx, "stock.query", Query{"SKU-1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err != nil {
			fmt.Println(o.Agent, o.Err)
			continue
		}
		fmt.Println(o.Agent, string(o.Parts[0].Payload))
	}
	// Output:
	// warehouse-north {"sku":"SKU-1","quantity":42}
	// warehouse-south {"sku":"SKU-1","quantity":42}
}

// An agent behind a web server of its own can be called without the hop over a node.
func ExampleDirect() {
	node, stop := exampleNode()
	defer stop()
	ctx := context.Background()
	server := httptest.NewUnstartedServer(nil)
	url := "http://" + server.Listener.Addr().String() + "/rpc"
	agent, err := sdk.New("inventory", sdk.WithNode(node), sdk.WithLogger(quiet()),
		sdk.WithEndpoint(envelope.Endpoint{Type: envelope.HTTPEndpoint, URL: url}))
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	agent.Handle(sdk.Capability{Name: "stock.query", Version: "1.0.0"},
		sdk.Func(func(_ context.Context, q Query) (Stock, error) { return Stock{q.SKU, 42}, nil }))
	server.Config.Handler = agent.HTTPHandler()
	server.Start()
	defer server.Close()
	if err := agent.Ready(ctx); err != nil {
		log.Fatal(err)
	}

	caller, err := sdk.New("orders", sdk.WithNode(node), sdk.WithLogger(quiet()))
	if err != nil {
		log.Fatal(err)
	}
	defer caller.Close()
	candidates, err := caller.Lookup(ctx, "stock.query")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(candidates), candidates[0].Agent, candidates[0].Endpoint.URL == url)

	var stock Stock
	err = caller.Call(ctx, "stock.query", Query{"SKU-1"}, &stock, sdk.Direct())
	fmt.Println(stock.Quantity, err)
	// Output:
	// 1 inventory true
	// 42 <nil>
}
