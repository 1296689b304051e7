package sdk

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// problem is an error as RFC 9457 writes it; envelope/DESIGN.md has its members.
type problem struct {
	Type       string           `json:"type"`
	Title      string           `json:"title"`
	Status     int              `json:"status"`
	Detail     string           `json:"detail,omitzero"`
	Code       envelope.Code    `json:"code"`
	Step       envelope.Step    `json:"step,omitzero"`
	Hint       string           `json:"hint,omitzero"`
	TraceID    string           `json:"trace_id,omitzero"`
	RetryAfter int64            `json:"retry_after_ms,omitzero"`
	Places     []envelope.Place `json:"places,omitempty"`
}

func decodeProblem(b []byte) (*envelope.Error, bool) {
	var p problem
	if err := json.Unmarshal(b, &p); err != nil || p.Code == "" {
		return nil, false
	}
	return &envelope.Error{
		Code: p.Code, Step: p.Step, Text: p.Detail, Hint: p.Hint, TraceID: p.TraceID, Places: p.Places,
		RetryAfter: time.Duration(min(max(p.RetryAfter, 0), envelope.MaxTTL*1000)) * time.Millisecond,
	}, true
}

// writeProblem answers with err. Nothing may have been written before.
func writeProblem(w http.ResponseWriter, err error) {
	e := envelope.AsError(err)
	status := e.HTTPStatus()
	if e.Code == envelope.AgentFailed {
		status = http.StatusInternalServerError
	}
	b, err := json.Marshal(&problem{
		Type: "urn:agent-reach:error:" + string(e.Code), Title: e.Code.Title(), Status: status, Detail: e.Text,
		Code: e.Code, Step: e.Step, Hint: e.Hint, TraceID: e.TraceID, RetryAfter: e.RetryAfter.Milliseconds(), Places: e.Places,
	}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // strings and numbers only
	}
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds(e.RetryAfter)))
	}
	h.Set("Content-Type", problemType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	w.Write(b) // an error means that the peer is gone: nobody to tell
}
