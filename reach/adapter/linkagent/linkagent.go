package linkagent

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/reach"
)

// Agent is an agent at the other end of a link. It implements reach.Agent.
type Agent struct{ link *link.Link }

// New makes an Agent of a link, which must be running and stays its owner's to close.
func New(l *link.Link) *Agent { return &Agent{l} }

// Call hands m over and passes the parts of the answer to sink.
func (a *Agent) Call(ctx context.Context, m *reach.Message, sink reach.Sink) error {
	deadline, _ := ctx.Deadline()
	err := a.link.Call(ctx, m.Envelope, link.Hop{
		Deadline: deadline,
		HopsLeft: m.HopsLeft,
		Priority: m.Header.Priority,
		Attempts: m.Attempts,
	}, sink)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w (%w)", err, context.Canceled)
	}
	return err
}

// Probe asks the agent's end of the link for a sign of life.
func (a *Agent) Probe(ctx context.Context) error {
	_, err := a.link.Ping(ctx)
	return err
}
