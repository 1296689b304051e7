package envelope

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Code says what went wrong, in one word of a closed list. A Code is itself an error, so that
// errors.Is(err, envelope.Timeout) holds for every *Error with that code.
type Code string

// The codes of protocol 3.0. The comment says whether the sender may try again.
const (
	Malformed    Code = "malformed"      // no
	TooLarge     Code = "too_large"      // no
	BadSeal      Code = "bad_seal"       // no
	UnknownAgent Code = "unknown_agent"  // after registering
	ClockSkew    Code = "clock_skew"     // with a new timestamp
	Expired      Code = "expired"        // with a new timestamp
	Forbidden    Code = "forbidden"      // no
	SchemaError  Code = "schema_invalid" // no
	NoRoute      Code = "no_route"       // later
	Conflict     Code = "conflict"       // no
	Duplicate    Code = "duplicate"      // no
	Overloaded   Code = "overloaded"     // later, after RetryAfter
	Unreachable  Code = "unreachable"    // yes: nothing was handed over on any path
	Timeout      Code = "timeout"        // only if safe to repeat: it may have run
	AgentFailed  Code = "agent_error"    // the agent says
	Loop         Code = "loop"           // no
	Unsupported  Code = "unsupported"    // no
	Internal     Code = "internal"       // a fault of the node itself; never sent on purpose
)

type codeInfo struct {
	status int
	title  string
}

var codes = map[Code]codeInfo{
	Malformed:    {http.StatusBadRequest, "not a valid envelope"},
	TooLarge:     {http.StatusRequestEntityTooLarge, "over a limit"},
	BadSeal:      {http.StatusUnauthorized, "the seal does not prove the source"},
	UnknownAgent: {http.StatusUnauthorized, "the source is not registered"},
	ClockSkew:    {http.StatusBadRequest, "the clocks differ too much"},
	Expired:      {http.StatusRequestTimeout, "too old"},
	Forbidden:    {http.StatusForbidden, "not permitted"},
	SchemaError:  {http.StatusUnprocessableEntity, "the payload does not fit the input_schema"},
	NoRoute:      {http.StatusNotFound, "no agent can answer this"},
	Conflict:     {http.StatusConflict, "held by another"},
	Duplicate:    {http.StatusConflict, "already executed"},
	Overloaded:   {http.StatusTooManyRequests, "at a limit, try again later"},
	Unreachable:  {http.StatusBadGateway, "no candidate could be reached"},
	Timeout:      {http.StatusGatewayTimeout, "handed over, but no answer in time"},
	AgentFailed:  {http.StatusOK, "the agent answered with an error"},
	Loop:         {http.StatusLoopDetected, "the call goes round in a circle or too deep"},
	Unsupported:  {http.StatusNotImplemented, "not served by this node"},
	Internal:     {http.StatusInternalServerError, "a fault in the node"},
}

// Error makes a Code usable as the target of errors.Is.
func (c Code) Error() string { return string(c) }

// HTTPStatus is the status that protocol 3.0 gives the code; 500 for an unknown one.
func (c Code) HTTPStatus() int {
	if info, ok := codes[c]; ok {
		return info.status
	}
	return http.StatusInternalServerError
}

// Title is a short, constant sentence for the code.
func (c Code) Title() string { return codes[c].title }

// NotRun reports whether the code promises that the request was certainly not executed, so that another path may be tried.
func (c Code) NotRun() bool {
	switch c {
	case Unreachable, Overloaded, Loop, NoRoute, Expired:
		return true
	}
	return false
}

// Step names the part of a request's way at which an error arose. The same word stands in logs and metrics.
type Step string

// The steps, in the order in which a request meets them; then those outside a request's way.
const (
	StepDecode     Step = "decode"
	StepSize       Step = "size"
	StepClock      Step = "clock"
	StepSeal       Step = "seal"
	StepSeen       Step = "seen"
	StepPermission Step = "permission"
	StepResolve    Step = "resolve"
	StepCheck      Step = "check"
	StepChoose     Step = "choose"
	StepForward    Step = "forward"
	StepQueue      Step = "queue"
	StepDeliver    Step = "deliver"
	StepAnswer     Step = "answer"

	StepRegister Step = "register"
	StepLink     Step = "link"
	StepKey      Step = "key"
	StepTicket   Step = "ticket"
	StepConfig   Step = "config"
	StepCall     Step = "call"
)

// Place is one spot of a payload that does not fit, as a JSON Pointer (RFC 6901) and a sentence.
type Place struct {
	Pointer string `json:"pointer"`
	Text    string `json:"text"`
}

// Error is every failure that Agent-Reach reports, in process and on the wire. Text says what is wrong and where; Hint
// says what to do next.
type Error struct {
	Code       Code
	Step       Step
	Text       string
	Hint       string
	TraceID    string
	RetryAfter time.Duration
	Places     []Place

	cause error // for errors.Is in this process; never sent
}

// Errorf makes an Error whose text is formatted as by fmt.Sprintf.
func Errorf(code Code, step Step, format string, args ...any) *Error {
	return &Error{Code: code, Step: step, Text: fmt.Sprintf(format, args...)}
}

// because records what e was made from.
func (e *Error) because(cause error) *Error {
	e.cause = cause
	return e
}

// Unwrap is the error of another package, or ErrPassphrase, that e tells of; nil for most.
func (e *Error) Unwrap() error { return e.cause }

// WithHint returns a copy of e with the hint set.
func (e *Error) WithHint(format string, args ...any) *Error {
	out := *e
	out.Hint = fmt.Sprintf(format, args...)
	return &out
}

// WithRetryAfter returns a copy of e that asks the sender to wait at least d.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	out := *e
	out.RetryAfter = d
	return &out
}

// WithTrace returns e with the trace id set, a copy if it was another.
func (e *Error) WithTrace(id string) *Error {
	if e.TraceID == id {
		return e
	}
	out := *e
	out.TraceID = id
	return &out
}

// maxPlaces is how many places stand in a message of one line; the error object has them all.
const maxPlaces = 8

// Error is "code at step: text; places (hint)".
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Step != "" {
		s += " at " + string(e.Step)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	for i, p := range e.Places {
		if i == maxPlaces {
			s += fmt.Sprintf("; and %d more", len(e.Places)-i)
			break
		}
		s += fmt.Sprintf("; %q: %s", p.Pointer, p.Text)
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Is reports whether target is e's Code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// HTTPStatus is the status to answer with. A bad answer from an agent is the gateway's trouble (502), not the caller's.
func (e *Error) HTTPStatus() int {
	if e.Step == StepAnswer && e.Code != AgentFailed {
		return http.StatusBadGateway
	}
	return e.Code.HTTPStatus()
}

// AsError finds the *Error in err's chain. An err without one becomes Internal: nothing leaves a node uncoded.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c Code
	if errors.As(err, &c) {
		return &Error{Code: c}
	}
	return &Error{Code: Internal, Text: err.Error()}
}

// MarshalError encodes the error object of DESIGN.md.
func MarshalError(e *Error) []byte {
	b, err := json.Marshal(e)
	if err != nil { // a text that is not UTF-8
		b, _ = json.Marshal(e, jsontext.AllowInvalidUTF8(true))
	}
	return b
}

// UnmarshalError decodes an error object; one that cannot be read becomes Malformed, with the reason.
func UnmarshalError(b []byte) *Error {
	var e Error
	if err := json.Unmarshal(b, &e); err != nil {
		return Errorf(Malformed, StepDecode, "error object: %s", jsonReason(err))
	}
	if !e.Code.wellFormed() {
		return Errorf(Malformed, StepDecode, "error object: code is %s; it must be one small word", quote(string(e.Code)))
	}
	e.RetryAfter = max(e.RetryAfter, 0)
	return &e
}

// wellFormed holds for [a-z_]{1,32}: also for codes of later versions, but for nothing that would flood a metric's labels.
func (c Code) wellFormed() bool {
	outside := func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }
	return c != "" && len(c) <= 32 && !strings.ContainsFunc(string(c), outside)
}
