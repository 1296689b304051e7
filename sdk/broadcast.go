package sdk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// Outcome is what became of a broadcast at one agent: the parts of its answer, usually one, or an error.
type Outcome struct {
	Agent    string
	Parts    []*Response
	Duration time.Duration // as its node saw it
	Err      error         // *AgentError where the agent itself said so
}

// outcomeDocument is an Outcome on the wire.
type outcomeDocument struct {
	Agent     string           `json:"agent"`
	OK        bool             `json:"ok"`
	Duration  float64          `json:"duration_ms"`
	Response  jsontext.Value   `json:"response"`
	Responses []jsontext.Value `json:"responses"`
	Error     jsontext.Value   `json:"error"`
}

// Broadcast asks all available agents of the capability at once, and takes as long as the slowest. Nobody is asked twice. There is one outcome for
// each agent asked, in the order of their ids.
//
// Errors: those of Call; they mean that nobody was asked, save Timeout.
func (a *Agent) Broadcast(ctx context.Context, capability string, in any, options ...CallOption) ([]Outcome, error) {
	c := newCall(capability, in, options)
	q, err := a.question(ctx, &c, envelope.Broadcast)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, q.deadline)
	defer cancel()
	var answer *envelope.Envelope
	q.take = func(part *envelope.Envelope, _ bool) error { answer = part; return nil }
	if err := a.askNode(ctx, q); err != nil {
		return nil, err
	}
	var said struct {
		Outcomes []outcomeDocument `json:"outcomes"`
	}
	if err := json.Unmarshal(answer.Payload, &said); err != nil {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "the outcomes of a broadcast cannot be read: %v", err)
	}
	s, err := a.attached(ctx)
	if err != nil {
		return nil, err
	}
	return s.outcomes(ctx, q, said.Outcomes), nil
}

// checkers is how many answers of a broadcast are checked at once: each may need a key from the node first.
const checkers = 16

func (s *session) outcomes(ctx context.Context, q *question, docs []outcomeDocument) []Outcome {
	out := make([]Outcome, len(docs))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(checkers, len(docs)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(docs)); i = next.Add(1) - 1 {
				out[i] = s.outcome(ctx, q, &docs[i])
			}
		})
	}
	group.Wait()
	return out
}

// outcome checks one agent's answer as that of a call.
func (s *session) outcome(ctx context.Context, q *question, d *outcomeDocument) Outcome {
	out := Outcome{Agent: d.Agent, Duration: time.Duration(d.Duration * float64(time.Millisecond))}
	docs := d.Responses
	if d.Response != nil {
		docs = []jsontext.Value{d.Response}
	}
	for _, doc := range docs {
		part, err := s.agent.opened(ctx, s, q, d.Agent, doc)
		if errors.Is(err, envelope.AgentFailed) {
			out.Err = err
			return out
		}
		if err != nil {
			return Outcome{Agent: out.Agent, Duration: out.Duration, Err: err}
		}
		out.Parts = append(out.Parts, &Response{Header: part.Header, Payload: part.Payload, Agent: d.Agent, Duration: out.Duration})
	}
	if len(docs) == 0 {
		out.Err = envelope.UnmarshalError(d.Error)
	}
	return out
}

// opened reads one response document within a broadcast's answer, and checks that agent said it.
func (a *Agent) opened(ctx context.Context, s *session, q *question, agent string, doc []byte) (*envelope.Envelope, error) {
	part, _, err := envelope.Decode(doc, a.cfg.maxPayload)
	if err != nil {
		return nil, err
	}
	if err := belongs(q.Envelope, part, agent); err != nil {
		return nil, err
	}
	if err := a.keys.verify(ctx, s, part); err != nil {
		return nil, err
	}
	if part.Header.Status == envelope.StatusError {
		return nil, agentError(&part.Header)
	}
	return part, nil
}
