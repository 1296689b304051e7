package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/sdk"
)

// Nodes that take a connection and then say nothing, at each stage, must not hold up Close.
func TestSilentNodes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closing := func(name string, a *sdk.Agent) {
		began := time.Now()
		a.Close()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s: Close took %v", name, took)
		}
	}
	mute := newAgent(t, "orders", l.Addr().String())
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := mute.Call(soon, "x", nil, nil); !errors.Is(err, envelope.Unreachable) {
		t.Errorf("no word at all: %v", err)
	}
	closing("no word at all", mute)

	n := newFakeNode(t)
	n.set(func(in *link.Inbound) (bool, error) {
		if in.Envelope.Header.SourceAgent == "unheard" || in.Envelope.Header.MsgType == envelope.Unregister {
			<-t.Context().Done()
			return true, nil
		}
		return false, nil
	})
	unheard := newAgent(t, "unheard", n.server.URL)
	running(t, unheard)
	n.await("the registration", func() bool { return n.count(envelope.Register) == 1 })
	closing("no answer to the registration", unheard)
	leaving := newAgent(t, "leaving", n.server.URL)
	running(t, leaving)
	n.await("the registration", func() bool { return n.agents["leaving"] != nil })
	closing("no answer to the unregistration", leaving)
}

func TestPartingNode(t *testing.T) {
	one, two := newFakeNode(t), newFakeNode(t)
	a := newAgent(t, "slow", one.server.URL, sdk.WithNode(two.server.URL))
	started, finish := make(chan struct{}), make(chan struct{})
	a.Handle(sdk.Capability{Name: "work", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) {
		close(started)
		<-finish
		return "done", nil
	})
	running(t, a)
	one.await("the registration", func() bool { return one.agents["slow"] != nil })
	caller := newAgent(t, "orders", one.server.URL)
	var out string
	answer := make(chan error, 1)
	go func() { answer <- caller.Call(short(t), "work", nil, &out) }()
	within(t, started, "the handler")
	one.agents["slow"].link.GoAway(envelope.Errorf(envelope.Unreachable, envelope.StepLink, "maintenance"))
	two.await("the registration at the other node", func() bool { return two.agents["slow"] != nil })
	close(finish)
	if err := within(t, answer, "the answer over the parting link"); err != nil || out != "done" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestNothingOutlivesClose(t *testing.T) {
	n := newFakeNode(t)
	before := runtime.NumGoroutine()
	for range 3 {
		a := newAgent(t, "inventory", n.server.URL)
		a.Handle(stockCapability, sdk.Func(queryStock))
		if err := a.Ready(short(t)); err != nil {
			t.Fatal(err)
		}
		if err := a.Call(short(t), "stock.query", stockQuery{"S"}, nil); err != nil {
			t.Fatal(err)
		}
		a.Close()
		a.Close()
		if err := a.Call(short(t), "stock.query", stockQuery{"S"}, nil); !errors.Is(err, envelope.Unreachable) {
			t.Errorf("after Close: %v", err)
		}
		if err := a.Run(t.Context()); err != nil && !errors.Is(err, envelope.Unreachable) {
			t.Errorf("Run after Close: %v", err)
		}
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines more:\n%s", runtime.NumGoroutine()-before, buf[:runtime.Stack(buf, true)])
	}
}

func TestHandlerThatIgnoresItsContext(t *testing.T) {
	n := newFakeNode(t)
	a := newAgent(t, "stubborn", n.server.URL, sdk.WithDrain(50*time.Millisecond))
	started, finish := make(chan struct{}), make(chan struct{})
	defer close(finish)
	a.Handle(sdk.Capability{Name: "work", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) {
		close(started)
		<-finish
		return nil, nil
	})
	stop, ended := running(t, a)
	n.await("the registration", func() bool { return n.agents["stubborn"] != nil })
	go newAgent(t, "orders", n.server.URL).Call(short(t), "work", nil, nil)
	within(t, started, "the handler")
	stop()
	if err := within(t, ended, "the end of Run"); err != nil {
		t.Error(err)
	}
}

// What a handler answered while its agent was leaving arrives, however long it takes to write.
func TestLastAnswersLeave(t *testing.T) {
	n := newFakeNode(t)
	caller := newAgent(t, "orders", n.server.URL)
	for i := range 10 {
		id := fmt.Sprintf("leaving-%d", i)
		a := newAgent(t, id, n.server.URL)
		started, finish := make(chan struct{}), make(chan struct{})
		a.Handle(sdk.Capability{Name: "work", Version: "1.0.0"}, func(context.Context, *sdk.Request) (any, error) {
			close(started)
			<-finish
			return strings.Repeat("x", 3<<20), nil
		})
		stop, ended := running(t, a)
		n.await("the registration", func() bool { return n.agents[id] != nil })
		var out string
		answer := make(chan error, 1)
		go func() { answer <- caller.Call(short(t), "work", nil, &out, sdk.ToAgent(id)) }()
		within(t, started, "the handler")
		stop()
		n.await("the unregistration", func() bool { return n.count(envelope.Unregister) > i })
		close(finish)
		if err := within(t, answer, "the answer"); err != nil || len(out) != 3<<20 {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		within(t, ended, "the end of Run")
	}
}
