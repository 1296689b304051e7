package httpagent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"mime"
	"net/http"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// callSealed hands the message over as a document with a ticket. The seals of the answers are the caller's to check.
func (a *Agent) callSealed(ctx context.Context, m *reach.Message, sink reach.Sink) error {
	key, ok := a.cfg.Callers.Key(m.Header.SourceAgent)
	if !ok {
		return envelope.Errorf(envelope.UnknownAgent, envelope.StepTicket, "no key is known of %s, and %s is called with the caller's key only", m.Header.SourceAgent, a.cfg.Agent).
			WithHint("register %s first", m.Header.SourceAgent)
	}
	q, err := a.document(ctx, m.Envelope, key)
	if err != nil {
		return err
	}
	return a.ask(ctx, q, func(resp *http.Response) error { return a.documents(ctx, resp, sink) })
}

// probeSealed sends a heartbeat in the node's name. Any response to it that the agent sealed will do.
func (a *Agent) probeSealed(ctx context.Context) error {
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), MsgType: envelope.Heartbeat, SourceAgent: a.cfg.Node, TargetAgent: a.cfg.Agent, ToNode: a.cfg.Node,
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}, []byte("{}"))
	if err != nil {
		return err
	}
	envelope.Sign(a.cfg.NodeKey, e)
	q, err := a.document(ctx, e, a.cfg.NodeKey.Public())
	if err != nil {
		return err
	}
	answered := false
	err = a.probe(ctx, q, func(resp *http.Response) error {
		return a.documents(ctx, resp, func(part *envelope.Envelope) error {
			answered = true
			return a.proves(part, e)
		})
	})
	if err == nil && !answered {
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "%s answered the probe with nothing", a.cfg.Agent)
	}
	return err
}

// proves checks that the agent itself said part in answer to the probe.
func (a *Agent) proves(part, probe *envelope.Envelope) error {
	if part.Header.InReplyTo != probe.Header.MsgID || part.Header.SourceAgent != a.cfg.Agent {
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "%s answered the probe as %s, in reply to %q instead of %q",
			a.cfg.Agent, part.Header.SourceAgent, part.Header.InReplyTo, probe.Header.MsgID)
	}
	return part.Verify(a.cfg.Key)
}

// probe is ask for probes: when calls use the whole pool, the agent's state shows in how they end.
func (a *Agent) probe(ctx context.Context, q question, take func(*http.Response) error) error {
	if !a.pool.take(ctx) {
		return envelope.Errorf(envelope.Overloaded, envelope.StepQueue, "all %d connections to %s are in use", a.cfg.PoolSize, a.place)
	}
	defer a.pool.give()
	return a.exchange(ctx, q, take)
}

// document is e as a document with a ticket that lets its source, who holds caller, ask for just this.
func (a *Agent) document(ctx context.Context, e *envelope.Envelope, caller envelope.PublicKey) (question, error) {
	ticket, err := envelope.SealTicket(a.cfg.NodeKey, envelope.Ticket{
		ID: rand.Text(), Node: a.cfg.Node, Caller: e.Header.SourceAgent, CallerKey: caller,
		Capability: capability(&e.Header), Agent: a.cfg.Agent,
		Expires: envelope.Timestamp{Time: time.Now().Add(envelope.MaxTicketLife)},
	})
	if err != nil {
		return question{}, err
	}
	body, err := e.AppendDocument(nil, ticket)
	if err != nil {
		return question{}, err
	}
	header := a.header(ctx, &e.Header)
	header["Accept"] = []string{jsonType + ", " + linesType + ", " + problemType}
	return question{http.MethodPost, a.cfg.URL, header, body}, nil
}

// documents passes the response documents of an answer to sink.
func (a *Agent) documents(ctx context.Context, resp *http.Response, sink reach.Sink) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	succeeded := resp.StatusCode >= 200 && resp.StatusCode <= 299
	switch {
	case kind == problemType:
		return a.problem(ctx, resp)
	case succeeded && kind == linesType:
		return a.lines(ctx, resp, sink)
	case succeeded && kind == jsonType:
		doc, err := a.body(ctx, resp, a.maxDocument())
		if err != nil {
			return err
		}
		return a.pass(doc, sink)
	}
	if err := a.busy(resp); err != nil {
		return err
	}
	return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "instead of a response document, %s", a.described(resp)).
		WithHint("the endpoint is no Agent-Reach agent; a plain web server is attached by the operator: agent-reach attach FILE")
}

func (a *Agent) maxDocument() int { return a.cfg.MaxPayload + envelope.Overhead + envelope.MaxTicket }

// lines passes on one document a line, as they come.
func (a *Agent) lines(ctx context.Context, resp *http.Response, sink reach.Sink) error {
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, a.maxDocument()+2) // a line's end is not the document's
	for in.Scan() {
		if line := bytes.TrimSpace(in.Bytes()); len(line) > 0 {
			if err := a.pass(bytes.Clone(line), sink); err != nil {
				return err
			}
		}
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return a.tooLarge(a.maxDocument())
	case err != nil:
		return a.broken(ctx, err)
	}
	return nil
}

func (a *Agent) pass(doc []byte, sink reach.Sink) error {
	part, _, err := envelope.Decode(doc, a.cfg.MaxPayload)
	if err != nil {
		e := *envelope.AsError(err)
		e.Step, e.Text = envelope.StepAnswer, "the answer of "+a.cfg.Agent+": "+e.Text
		return &e
	}
	return sink(part)
}
