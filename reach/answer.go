package reach

import (
	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

// answer checks the parts of one answer on their way from the agent to the caller.
type answer struct {
	home    *Home
	agent   string
	key     envelope.PublicKey
	request *Message
	sink    Sink
	parts   int
}

func (a *answer) take(part *envelope.Envelope) error {
	if err := a.belongs(&part.Header); err != nil {
		return err
	}
	if err := a.home.cfg.Admission.verifier.Verify(part, a.key); err != nil {
		e := *envelope.AsError(err)
		e.Step, e.Text = envelope.StepAnswer, "the answer of "+a.agent+": "+e.Text
		return &e
	}
	a.parts++
	return a.sink(part)
}

// belongs holds a part to its request, so that no late or mixed-up answer reaches another's caller.
func (a *answer) belongs(h *envelope.Header) error {
	req := &a.request.Header
	for _, f := range [...]struct{ field, got, want string }{
		{"msg_type", string(h.MsgType), string(envelope.Response)},
		{"in_reply_to", h.InReplyTo, req.MsgID},
		{"source_agent", h.SourceAgent, a.agent},
		{"target_agent", h.TargetAgent, req.SourceAgent},
		{"trace_id", h.TraceID, req.TraceID},
	} {
		if f.got != f.want {
			return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "%s answered with %s %q instead of %q; the answer was dropped", a.agent, f.field, f.got, f.want).
				WithHint("the agent ran; its SDK mixes up answers")
		}
	}
	return nil
}

// end is the call's error: an answer without a single part is none.
func (a *answer) end(err error) error {
	if err == nil && a.parts == 0 {
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "%s ended the call without an answer", a.agent).
			WithHint("the agent ran; even an empty answer is a response envelope")
	}
	return err
}

// crashed reports whether an error says that the agent could not do its work: it did not mean it (agent_error), or has no room. An agent that gives any
// other code means what it says, and its path did its work.
func crashed(h *envelope.Header) bool {
	var e struct {
		Code envelope.Code `json:"code"`
	}
	if json.Unmarshal(h.Error, &e) != nil {
		return true
	}
	switch e.Code {
	case envelope.AgentFailed, envelope.Overloaded, envelope.Timeout, envelope.Internal, "rate_limited", "unavailable":
		return true
	}
	return false
}
