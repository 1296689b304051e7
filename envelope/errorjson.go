package envelope

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// errorJSON is Error on the wire. The library has no tag that writes a duration in milliseconds.
type errorJSON struct {
	Code         Code    `json:"code"`
	Step         Step    `json:"step,omitzero"`
	Text         string  `json:"text,omitzero"`
	Hint         string  `json:"hint,omitzero"`
	TraceID      string  `json:"trace_id,omitzero"`
	RetryAfterMs int64   `json:"retry_after_ms,omitzero"`
	Places       []Place `json:"places,omitempty"`
}

// MarshalJSONTo writes the error object of DESIGN.md.
func (e *Error) MarshalJSONTo(enc *jsontext.Encoder) error {
	return json.MarshalEncode(enc, &errorJSON{e.Code, e.Step, e.Text, e.Hint, e.TraceID, e.RetryAfter.Milliseconds(), e.Places})
}

// UnmarshalJSONFrom reads it. A wait of over a day is cut to one.
func (e *Error) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var w errorJSON
	if err := json.UnmarshalDecode(dec, &w); err != nil {
		return err
	}
	wait := time.Duration(min(max(w.RetryAfterMs, 0), MaxTTL*1000)) * time.Millisecond
	*e = Error{Code: w.Code, Step: w.Step, Text: w.Text, Hint: w.Hint, TraceID: w.TraceID, RetryAfter: wait, Places: w.Places}
	return nil
}
