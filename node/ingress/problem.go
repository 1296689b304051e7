package ingress

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	problemType = "application/problem+json"
	jsonType    = "application/json"
	linesType   = "application/x-ndjson"

	traceHeader   = "Agent-Reach-Trace-Id"
	timeoutHeader = "Agent-Reach-Timeout-Ms"
)

// problem is an error as RFC 9457 wants it.
type problem struct {
	Type       string           `json:"type"`
	Title      string           `json:"title"`
	Status     int              `json:"status"`
	Detail     string           `json:"detail,omitzero"`
	Code       envelope.Code    `json:"code"`
	Step       envelope.Step    `json:"step,omitzero"`
	Hint       string           `json:"hint,omitzero"`
	TraceID    string           `json:"trace_id,omitzero"`
	RetryAfter int64            `json:"retry_after_ms,omitzero"` // rounded up
	Places     []envelope.Place `json:"places,omitempty"`
}

func problemOf(e *envelope.Error, status int) problem {
	return problem{
		Type: "urn:agent-reach:error:" + string(e.Code), Title: e.Code.Title(), Status: status, Detail: e.Text,
		Code: e.Code, Step: e.Step, Hint: e.Hint, TraceID: e.TraceID, RetryAfter: roundUp(e.RetryAfter, time.Millisecond), Places: e.Places,
	}
}

func (p problem) encode() []byte {
	b, err := json.Marshal(&p, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // strings and numbers only
	}
	return b
}

// statusError is an error that HTTP has a status of its own for.
type statusError struct {
	coded  *envelope.Error
	status int
}

// Error is the coded error's.
func (e statusError) Error() string { return e.coded.Error() }

// Unwrap finds the coded error.
func (e statusError) Unwrap() error { return e.coded }

// writeProblem answers with err. Nothing may have been written before.
func writeProblem(w http.ResponseWriter, err error) {
	e := envelope.AsError(err)
	status := e.HTTPStatus()
	if own, ok := err.(statusError); ok {
		status = own.status
	}
	h := w.Header()
	if e.TraceID == "" {
		e = e.WithTrace(h.Get(traceHeader))
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(roundUp(e.RetryAfter, time.Second), 10))
	}
	writeBytes(w, status, problemType, problemOf(e, status).encode())
}

// roundUp counts d in units: who waits so long has waited long enough.
func roundUp(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

func writeBytes(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	hurry(w, len(body))
	w.WriteHeader(status)
	w.Write(body) // an error means that the peer is gone: nobody to tell
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	writeBytes(w, status, jsonType, body)
	return nil
}
