package ingress

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// broadcastReply is the payload of the answer to a broadcast.
type broadcastReply struct {
	Outcomes []outcome `json:"outcomes"`
}

// outcome is what became of a broadcast at one agent. Not OK with a Response: the agent itself says that it failed.
type outcome struct {
	Agent      string           `json:"agent"`
	OK         bool             `json:"ok"`
	DurationMS float64          `json:"duration_ms"`
	Response   jsontext.Value   `json:"response,omitzero"`   // the answer, if it is one part
	Responses  []jsontext.Value `json:"responses,omitempty"` // the parts, if there are several
	Error      jsontext.Value   `json:"error,omitzero"`
}

func (s *Server) broadcast(ctx context.Context, m *reach.Message, sink reach.Sink) error {
	asked, err := s.deps.Ingress.Broadcast(ctx, m)
	if err != nil {
		return err
	}
	reply, err := s.reply(m, s.gather(asked))
	if err != nil {
		return err
	}
	return sink(reply)
}

// gather makes one payload of all outcomes. Answers that would make it larger than a payload may be are replaced by an error.
func (s *Server) gather(asked []reach.Outcome) *broadcastReply {
	out := &broadcastReply{Outcomes: make([]outcome, len(asked))}
	room := s.cfg.MaxPayload
	for i, a := range asked {
		o := outcomeOf(a, &room)
		o.Agent, o.DurationMS = a.Agent, float64(a.Duration)/float64(time.Millisecond)
		out.Outcomes[i] = o
	}
	return out
}

func outcomeOf(a reach.Outcome, room *int) outcome {
	failed := a.Err
	var docs []jsontext.Value
	if failed == nil {
		docs, failed = documents(a, room)
	}
	if failed != nil {
		return outcome{Error: envelope.MarshalError(envelope.AsError(failed))}
	}
	o := outcome{OK: true}
	if last := a.Parts[len(a.Parts)-1].Header; last.Status == envelope.StatusError {
		o.OK, o.Error = false, last.Error
	}
	if len(docs) == 1 {
		o.Response = docs[0]
	} else {
		o.Responses = docs
	}
	return o
}

func documents(a reach.Outcome, room *int) (docs []jsontext.Value, err error) {
	size := 0
	for _, part := range a.Parts {
		doc, err := part.AppendDocument(nil, nil)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
		size += len(doc)
	}
	if size > *room {
		return nil, envelope.Errorf(envelope.TooLarge, envelope.StepAnswer, "the answer of %s, %d bytes, has no room beside the others in one answer", a.Agent, size).
			WithHint("%s ran; ask it alone", a.Agent)
	}
	*room -= size
	return docs, nil
}
