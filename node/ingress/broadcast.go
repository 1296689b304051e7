package ingress

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
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
	payload, err := s.gather(asked).encode()
	if err != nil {
		return err
	}
	reply, err := s.replyBytes(m, payload)
	if err != nil {
		return err
	}
	return sink(reply)
}

// encode writes the reply so that the documents in it keep every byte: json.Marshal would take out white space, which is sealed too.
func (b *broadcastReply) encode() (out []byte, err error) {
	out = append(out, `{"outcomes":[`...)
	for i, o := range b.Outcomes {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = o.appendTo(out); err != nil {
			return nil, err
		}
	}
	return append(out, "]}"...), nil
}

func (o outcome) appendTo(dst []byte) ([]byte, error) {
	one, several := o.Response, o.Responses
	o.Response, o.Responses = nil, nil
	b, err := json.Marshal(&o, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	dst = append(dst, b[:len(b)-1]...) // without its closing brace
	if one != nil {
		dst = append(dst, `,"response":`...)
		dst = append(dst, one...)
	}
	for i, doc := range several {
		if i == 0 {
			dst = append(dst, `,"responses":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, doc...)
	}
	if len(several) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}'), nil
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
