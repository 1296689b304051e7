package sdk

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// AgentError is an error that an agent itself answered with; nothing between it and the caller failed. errors.Is(err, envelope.AgentFailed) holds.
//
// A handler that returns one sets what its caller gets. From any other error the caller gets the code "agent_error" and the error's text; from an *envelope.Error,
// such as that of a call made by the handler, its code and text.
type AgentError struct {
	Code  string // the agent's own word, or "agent_error"
	Text  string
	Raw   jsontext.Value // the whole error object; a handler may set it to say more than code and text, up to 2 KiB
	Agent string         // who answered; a handler leaves it empty
}

// Limits of the error object in a response's header, in bytes.
const (
	maxErrorObject = 2048
	maxErrorText   = 1024
	maxErrorCode   = 128
)

// Error is "agent: code: text".
func (e *AgentError) Error() string {
	s := e.Code + ": " + e.Text
	if e.Agent != "" {
		s = e.Agent + ": " + s
	}
	return s
}

// Is reports whether target is envelope.AgentFailed.
func (e *AgentError) Is(target error) bool { return target == envelope.AgentFailed }

// agentError reads the error object of a response.
func agentError(h *envelope.Header) *AgentError {
	var said struct {
		Code string `json:"code"`
		Text string `json:"text"`
	}
	e := &AgentError{Code: string(envelope.AgentFailed), Raw: h.Error, Agent: h.SourceAgent}
	if err := json.Unmarshal(h.Error, &said); err != nil {
		e.Text = "the agent's error object cannot be read"
		return e
	}
	if said.Code != "" {
		e.Code = said.Code
	}
	e.Text = said.Text
	return e
}

// errorObject is what a handler's error says to the caller, small enough for a header.
func errorObject(err error) jsontext.Value {
	code, text := string(envelope.AgentFailed), err.Error()
	var own *AgentError
	var coded *envelope.Error
	switch {
	case errors.As(err, &own):
		if saysEnough(own.Raw) {
			return own.Raw
		}
		code, text = own.Code, own.Text
	case errors.As(err, &coded):
		code, text = string(coded.Code), coded.Text
	}
	if code == "" {
		code = string(envelope.AgentFailed)
	}
	b, err := json.Marshal(map[string]string{"code": cut(code, maxErrorCode), "text": cut(text, maxErrorText)}, json.Deterministic(true))
	if err != nil { // cut leaves valid UTF-8 only
		panic(err)
	}
	return fit(b)
}

func saysEnough(raw jsontext.Value) bool {
	var said struct {
		Code *string `json:"code"`
		Text *string `json:"text"`
	}
	return len(raw) > 0 && len(raw) <= maxErrorObject && json.Unmarshal(raw, &said) == nil && said.Code != nil && said.Text != nil
}

// fit replaces an object that escapes have blown up.
func fit(object jsontext.Value) jsontext.Value {
	if len(object) <= maxErrorObject {
		return object
	}
	return jsontext.Value(`{"code":"agent_error","text":"the error's text is too long to be sent"}`)
}

// cut is s as valid UTF-8 of at most n bytes.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n-len("…")]
		s = strings.ToValidUTF8(s, "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// caused is a coded error that also matches what brought it about.
type caused struct{ coded, cause error }

// Error is the coded error's.
func (e *caused) Error() string { return e.coded.Error() }

// Unwrap gives both.
func (e *caused) Unwrap() []error { return []error{e.coded, e.cause} }

// nearEnd is how much earlier than the context here the clocks along the way may call a deadline passed.
const nearEnd = 25 * time.Millisecond

// ended is e, matching the error of ctx as well if ctx has ended, or is about to by its deadline.
func ended(ctx context.Context, e *envelope.Error) error {
	if err := ctx.Err(); err != nil {
		return &caused{e, err}
	}
	late := e.Code == envelope.Timeout || e.Code == envelope.Expired
	if at, ok := ctx.Deadline(); ok && late && time.Until(at) < nearEnd {
		return &caused{e, context.DeadlineExceeded}
	}
	return e
}
