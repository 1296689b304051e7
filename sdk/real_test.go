package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

func TestNodeCalls(t *testing.T) {
	n := startNode(t)
	var log bytes.Buffer
	a := newAgent(t, "inventory", n.url(), sdk.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	a.Handle(stockCapability, sdk.Func(queryStock))
	stop, ended := serving(t, a)
	caller := newAgent(t, "orders", n.url())
	want := stock{"SKU-1", 42}
	for _, options := range [][]sdk.CallOption{nil, {sdk.ToAgent("inventory")}, {sdk.Direct()}, {sdk.Priority(1), sdk.TTL(time.Second), sdk.Trace("t-1")}} {
		var out stock
		if err := caller.Call(short(t), "stock.query@^1.0", stockQuery{"SKU-1"}, &out, options...); err != nil || out != want {
			t.Errorf("got %v, %v", out, err)
		}
	}
	if r, err := caller.Do(short(t), sdk.Call{Agent: "inventory", Input: stockQuery{"SKU-1"}, Trace: "t-2"}); err != nil || r.Header.TraceID != "t-2" || r.Agent != "inventory" {
		t.Errorf("by id alone: %+v, %v", r, err)
	}
	for want, err := range map[envelope.Code]error{
		envelope.SchemaError: caller.Call(short(t), "stock.query", 7, nil),
		envelope.NoRoute:     caller.Call(short(t), "no.such", nil, nil),
		envelope.Malformed:   caller.Call(short(t), "Not A Name", nil, nil),
	} {
		if !errors.Is(err, want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	stop()
	if err := within(t, ended, "the end of Run"); err != nil {
		t.Error(err)
	}
	if s := log.String(); !strings.Contains(s, `msg="agent registered" id=inventory capability_count=1`) {
		t.Errorf("log is %s", s)
	}
}

func TestSameMsgIDRunsOnce(t *testing.T) {
	n := startNode(t)
	var runs atomic.Int32
	a := newAgent(t, "payer", n.url())
	a.Handle(sdk.Capability{Name: "pay", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) { return runs.Add(1), nil })
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	if err := caller.Call(short(t), "pay", nil, nil, sdk.MsgID("m-1")); err != nil {
		t.Fatal(err)
	}
	err := caller.Call(short(t), "pay", nil, nil, sdk.MsgID("m-1"))
	if runs.Load() != 1 || err != nil && !errors.Is(err, envelope.Duplicate) {
		t.Errorf("ran %d times; the second call: %v", runs.Load(), err)
	}
}

func TestNodeStreams(t *testing.T) {
	n := startNode(t)
	a := newAgent(t, "counter", n.url())
	a.HandleStream(sdk.Capability{Name: "count", Version: "1.0.0"}, func(_ context.Context, req *sdk.Request, send func(any) error) error {
		for i := range 100 {
			if err := send(i); err != nil {
				return err
			}
		}
		return nil
	})
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	next := 0
	for part, err := range caller.Stream(short(t), "count", nil) {
		var i int
		if err != nil || part.Decode(&i) != nil || i != next {
			t.Fatalf("part %d: %v, %v", next, part, err)
		}
		next++
	}
	if next != 100 {
		t.Errorf("%d parts", next)
	}
}

func TestNodeBroadcasts(t *testing.T) {
	n := startNode(t)
	for _, id := range []string{"a", "b", "c"} {
		agent := newAgent(t, id, n.url())
		agent.Handle(sdk.Capability{Name: "vote", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) {
			if id == "b" {
				return nil, &sdk.AgentError{Code: "abstain", Text: "no opinion"}
			}
			return id, nil
		})
		serving(t, agent)
	}
	outcomes, err := newAgent(t, "chair", n.url()).Broadcast(short(t), "vote", nil)
	if err != nil || len(outcomes) != 3 {
		t.Fatalf("%v, %v", outcomes, err)
	}
	for i, o := range outcomes {
		want := []string{"a", "b", "c"}[i]
		var said string
		switch {
		case o.Agent != want:
			t.Errorf("outcome %d is %s's", i, o.Agent)
		case want == "b":
			var own *sdk.AgentError
			if !errors.As(o.Err, &own) || own.Code != "abstain" {
				t.Errorf("b: %v", o.Err)
			}
		case o.Err != nil || len(o.Parts) != 1 || o.Parts[0].Decode(&said) != nil || said != want:
			t.Errorf("%s: %+v", want, o)
		}
	}
}

func TestNodeKilledAndStartedAgain(t *testing.T) {
	n := startNode(t)
	a := newAgent(t, "inventory", n.url())
	a.Handle(stockCapability, sdk.Func(queryStock))
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	ask := func() error { return caller.Call(short(t), "stock.query", stockQuery{"S"}, nil) }
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	n.kill()
	waiting := make(chan error, 1)
	go func() { waiting <- ask() }()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	// It may have gone out just before the link broke, and the caller may be back before the agent is.
	if err := within(t, waiting, "the call made while the node was down"); err != nil && !errors.Is(err, envelope.NoRoute) && !errors.Is(err, envelope.Timeout) {
		t.Error(err)
	}
	if err := a.Ready(short(t)); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Error(err)
	}
}

func TestFailsOverToAnotherNode(t *testing.T) {
	one, two := startNode(t), startNode(t)
	both := sdk.WithNode(two.url())
	a := newAgent(t, "inventory", one.url(), both)
	a.Handle(stockCapability, sdk.Func(queryStock))
	serving(t, a)
	caller := newAgent(t, "orders", one.url(), both)
	if err := caller.Call(short(t), "stock.query", stockQuery{"S"}, nil); err != nil {
		t.Fatal(err)
	}
	one.kill()
	if !eventually(func() bool { return two.agent("inventory").State == "available" }) {
		t.Fatal("the agent did not move")
	}
	if err := caller.Call(short(t), "stock.query", stockQuery{"S"}, nil); err != nil {
		t.Error(err)
	}
}

func TestDrain(t *testing.T) {
	n := startNode(t)
	a := newAgent(t, "slow", n.url())
	started, finish := make(chan struct{}), make(chan struct{})
	a.Handle(sdk.Capability{Name: "work", Version: "1.0.0"}, func(ctx context.Context, req *sdk.Request) (any, error) {
		if len(req.Payload) == 0 {
			return nil, nil
		}
		close(started)
		select {
		case <-finish:
			return "done", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	stop, ended := serving(t, a)
	caller := newAgent(t, "orders", n.url())
	var out string
	answer := make(chan error, 1)
	if err := caller.Call(short(t), "work", nil, nil); err != nil {
		t.Fatal(err)
	}
	go func() { answer <- caller.Call(short(t), "work", "slowly", &out) }()
	within(t, started, "the handler")
	stop()
	if !eventually(func() bool { s := n.agent("slow").State; return s == "draining" || s == "" }) {
		t.Fatalf("it is %+v", n.agent("slow"))
	}
	if err := caller.Call(short(t), "work", nil, nil); !errors.Is(err, envelope.NoRoute) {
		t.Errorf("a new call to a leaving agent: %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("Run ended with its handler: %v", err)
	default:
	}
	close(finish)
	if err := within(t, answer, "the answer of the running call"); err != nil || out != "done" {
		t.Errorf("%q, %v", out, err)
	}
	if err := within(t, ended, "the end of Run"); err != nil {
		t.Error(err)
	}
	if !eventually(func() bool { return n.agent("slow").State == "removed" }) {
		t.Errorf("it is still %+v", n.agent("slow"))
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	n := startNode(t)
	a := newAgent(t, "inventory", n.url(), sdk.WithMaxConcurrent(64))
	a.Handle(stockCapability, sdk.Func(queryStock))
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 20 {
				var out stock
				if err := caller.Call(short(t), "stock.query", stockQuery{"S"}, &out); err != nil || out.Quantity != 42 {
					t.Errorf("%v, %v", out, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestOverloaded(t *testing.T) {
	n := startNode(t, "routing:", "  queue_per_agent: 1")
	a := newAgent(t, "slow", n.url(), sdk.WithMaxConcurrent(1))
	started, finish := make(chan struct{}, 2), make(chan struct{})
	a.Handle(sdk.Capability{Name: "work", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) {
		started <- struct{}{}
		<-finish
		return nil, nil
	})
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	answers := make(chan error, 3)
	for range 3 { // one runs, one waits
		go func() { answers <- caller.Call(short(t), "work", nil, nil) }()
	}
	within(t, started, "the handler")
	if err := within(t, answers, "a refusal"); !errors.Is(err, envelope.Overloaded) {
		t.Errorf("beyond the limit: %v", err)
	}
	close(finish)
	for range 2 {
		if err := within(t, answers, "the answers"); err != nil {
			t.Error(err)
		}
	}
}

// TestChain has two agents that ask each other for ever.
func TestChain(t *testing.T) {
	n := startNode(t)
	var depth atomic.Int32
	for id, other := range map[string]string{"ping": "pong", "pong": "ping"} {
		a := newAgent(t, id, n.url(), sdk.WithMaxConcurrent(32))
		a.Handle(sdk.Capability{Name: id, Version: "1.0.0"}, func(ctx context.Context, req *sdk.Request) (any, error) {
			if got := depth.Add(1); len(req.Header.Chain) != int(got)-1 || req.Header.TraceID != "t-1" {
				t.Errorf("call %d has the chain %v, trace %s", got, req.Header.Chain, req.Header.TraceID)
			}
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > 8*time.Second {
				t.Errorf("the deadline is %v", at)
			}
			return nil, a.Call(ctx, other, nil, nil)
		})
		serving(t, a)
	}
	err := newAgent(t, "starter", n.url()).Call(short(t), "ping", nil, nil, sdk.Trace("t-1"), sdk.TTL(8*time.Second))
	var own *sdk.AgentError
	if !errors.As(err, &own) || own.Code != string(envelope.Loop) {
		t.Errorf("got %v", err)
	}
	if got := depth.Load(); got != envelope.MaxChain+1 {
		t.Errorf("%d calls deep", got)
	}
}

func TestDeadlineReachesTheHandler(t *testing.T) {
	n := startNode(t)
	a := newAgent(t, "slow", n.url())
	begun, over := make(chan struct{}, 2), make(chan error, 2)
	a.Handle(sdk.Capability{Name: "work", Version: "1.0.0"}, func(ctx context.Context, _ *sdk.Request) (any, error) {
		begun <- struct{}{}
		<-ctx.Done()
		over <- ctx.Err()
		return nil, ctx.Err()
	})
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := caller.Call(ctx, "work", nil, nil); !errors.Is(err, envelope.Timeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	within(t, begun, "the handler")
	within(t, over, "the end of the handler's context")
	ctx, cancel = context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- caller.Call(ctx, "work", nil, nil) }()
	within(t, begun, "the handler")
	cancel()
	if err := within(t, answer, "the end of the call"); !errors.Is(err, envelope.Timeout) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	within(t, over, "the end of the handler's context")
}

// A place that the node counts as free is free: nothing is refused while the queue has room.
func TestSaturated(t *testing.T) {
	n := startNode(t)
	a := newAgent(t, "inventory", n.url(), sdk.WithMaxConcurrent(2))
	a.Handle(stockCapability, sdk.Func(queryStock))
	serving(t, a)
	caller := newAgent(t, "orders", n.url())
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for range 30 {
				if err := caller.Call(short(t), "stock.query", stockQuery{"S"}, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
