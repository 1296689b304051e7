package main

import (
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// ask sends a sealed message and hands each part of the answer, proven, to take.
func (c *client) ask(ctx context.Context, e *envelope.Envelope, take func(*envelope.Envelope) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+grace)
	defer cancel()
	resp, err := c.post(ctx, "/v1/messages", e)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	from := c.node.ID
	if e.Header.MsgType == envelope.Request {
		from = e.Header.TargetAgent
	}
	return c.answers(ctx, resp.Body, expected{e, from}, take)
}

// expected is what an answer must be: to request, and from that agent or node; from empty: from any agent.
type expected struct {
	request *envelope.Envelope
	from    string
}

// answers reads an answer: one document, or several, one a line, the last of which may be an error.
func (c *client) answers(ctx context.Context, body io.Reader, want expected, take func(*envelope.Envelope) error) error {
	decoder := jsontext.NewDecoder(io.LimitReader(body, maxAnswer))
	for parts := 0; ; parts++ {
		doc, err := decoder.ReadValue()
		switch {
		case errors.Is(err, io.EOF) && parts > 0:
			return nil
		case err != nil && ctx.Err() != nil:
			return c.lost(ctx, err, true)
		case err != nil:
			return unbelievable("the answer breaks off: %v", err)
		}
		part, err := c.open(ctx, doc.Clone(), want)
		if err != nil {
			return err
		}
		if err := take(part); err != nil {
			return err
		}
	}
}

// open reads one document of an answer and proves that it is what is expected. An answer that says error is a failure.
func (c *client) open(ctx context.Context, doc []byte, want expected) (*envelope.Envelope, error) {
	var last struct {
		Error jsontext.Value `json:"error"`
	}
	if json.Unmarshal(doc, &last) == nil && last.Error != nil {
		return nil, fromNode(envelope.UnmarshalError(last.Error))
	}
	part, _, err := envelope.Decode(doc, maxAnswer)
	if err != nil {
		return nil, unbelievable("the answer is no envelope: %v", err)
	}
	if err := c.prove(ctx, part, want); err != nil {
		return nil, err
	}
	if part.Header.Status == envelope.StatusError {
		return nil, agentFailure(&part.Header)
	}
	return part, nil
}

// prove checks that part is what is expected and that its source said it, with the key that the node gives for it.
func (c *client) prove(ctx context.Context, part *envelope.Envelope, want expected) error {
	h, asked := &part.Header, &want.request.Header
	switch {
	case h.MsgType != envelope.Response || h.InReplyTo != asked.MsgID || h.TargetAgent != asked.SourceAgent:
		return unbelievable("the answer of %s is to another message", h.SourceAgent)
	case want.from != "" && h.SourceAgent != want.from:
		return unbelievable("%s answers for %s", h.SourceAgent, want.from)
	}
	key := c.node.Key
	if h.SourceAgent != c.node.ID {
		agent, err := c.agent(ctx, h.SourceAgent)
		if err != nil {
			return unbelievable("the key of %s, who answered, is not to be had: %v", h.SourceAgent, err)
		}
		key = agent.PublicKey
	}
	if err := part.Verify(key); err != nil {
		return unbelievable("%s", envelope.AsError(err).Text)
	}
	return nil
}

// unbelievable is an answer that came and is of no use.
func unbelievable(format string, args ...any) error {
	return fromNode(envelope.Errorf(envelope.BadSeal, envelope.StepAnswer, format, args...))
}

// agentFailure is the error that an agent answered with.
func agentFailure(h *envelope.Header) error {
	var said struct {
		Code string `json:"code"`
		Text string `json:"text"`
	}
	text := h.SourceAgent + " answered with an error"
	if json.Unmarshal(h.Error, &said) == nil {
		text = h.SourceAgent + ": " + said.Code + ": " + said.Text
	}
	e := envelope.Errorf(envelope.AgentFailed, envelope.StepAnswer, "%s", text).WithTrace(h.TraceID)
	return &failure{exit: exitAgent, coded: e, raw: h.Error}
}
