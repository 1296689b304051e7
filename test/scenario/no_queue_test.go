package scenario

import (
	"context"
	"errors"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// TestNoQueueRefusesAtOnce: queue_per_agent 0 is no queue at all, and not the default.
func TestNoQueueRefusesAtOnce(t *testing.T) {
	n := startNode(t, settings{"routing.queue_per_agent": "0"})
	a := newAgent(t, n, "busy", sdk.WithMaxConcurrent(1))
	running, finish := make(chan struct{}), make(chan struct{})
	a.Handle(offer("work.do"), func(context.Context, *sdk.Request) (any, error) {
		close(running)
		<-finish
		return nil, nil
	})
	serve(t, a)
	caller := newAgent(t, n, "caller")
	first := make(chan error, 1)
	go func() { first <- caller.Call(short(t), "work.do", nil, nil) }()
	within(t, running, "the first call")
	if err := caller.Call(short(t), "work.do", nil, nil); !errors.Is(err, envelope.Overloaded) {
		t.Errorf("a call beside a full agent: %v", err)
	}
	close(finish)
	if err := within(t, first, "its answer"); err != nil {
		t.Error(err)
	}
}
