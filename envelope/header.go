package envelope

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the protocol's version, the only one this package speaks.
const Version = "3.0"

// Limits and defaults of a header.
const (
	MaxHeader       = 4096 // bytes
	MaxChain        = 16   // agents on whose behalf one call may be asked
	DefaultTTL      = 60   // seconds
	MaxTTL          = 86400
	DefaultPriority = 5
)

// ClockTolerance is how far the clocks of two parties may differ.
const ClockTolerance = 120 * time.Second

// MsgType says what an envelope is for.
type MsgType string

// The message types.
const (
	Request    MsgType = "request"
	Response   MsgType = "response"
	Heartbeat  MsgType = "heartbeat"
	Broadcast  MsgType = "broadcast"
	Register   MsgType = "register"
	Unregister MsgType = "unregister"
	Cancel     MsgType = "cancel"
)

// StatusOK and StatusError are the two values of a response's status.
const (
	StatusOK    = "ok"
	StatusError = "error"
)

// Header is the decoded header of an envelope; DESIGN.md gives each field's rule. The zero value of an optional field means
// that it was absent, save TTLSec and Priority, which decode to their defaults.
type Header struct {
	Version          string    `json:"version"`
	MsgID            string    `json:"msg_id"`
	TraceID          string    `json:"trace_id,omitzero"`
	Traceparent      string    `json:"traceparent,omitzero"`
	MsgType          MsgType   `json:"msg_type"`
	SourceAgent      string    `json:"source_agent"`
	TargetCapability string    `json:"target_capability,omitzero"`
	TargetAgent      string    `json:"target_agent,omitzero"`
	ToNode           string    `json:"to_node,omitzero"`
	Persistent       bool      `json:"persistent,omitzero"`
	TTLSec           int       `json:"ttl_sec,omitzero"`
	Priority         int       `json:"priority,omitzero"`
	Timestamp        Timestamp `json:"timestamp_utc"`
	Namespace        string    `json:"namespace,omitzero"`
	InReplyTo        string    `json:"in_reply_to,omitzero"`
	ConversationID   string    `json:"conversation_id,omitzero"`
	IdempotencyKey   string    `json:"idempotency_key,omitzero"`
	Chain            []string  `json:"chain,omitempty"`
	Status           string    `json:"status,omitzero"`
	// Error is what the agent said went wrong, whole: at least {"code", "text"}.
	Error     jsontext.Value `json:"error,omitzero"`
	VouchedBy string         `json:"vouched_by,omitzero"`
}

// TTL is ttl_sec as a duration.
func (h *Header) TTL() time.Duration { return time.Duration(h.TTLSec) * time.Second }

// Deadline is the moment after which nobody may work on the message any more.
func (h *Header) Deadline() time.Time { return h.Timestamp.Add(h.TTL()) }

// Timestamp is a moment in UTC, written as RFC 3339 with up to nanoseconds.
type Timestamp struct{ time.Time }

// MarshalText writes RFC 3339 in UTC.
func (t Timestamp) MarshalText() ([]byte, error) {
	return t.UTC().AppendFormat(nil, time.RFC3339Nano), nil
}

// MarshalJSON stands before the method of time.Time, which keeps other zones.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+time.RFC3339Nano+`"`), nil
}

// UnmarshalJSON stands before the method of time.Time, which takes other zones.
func (t *Timestamp) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Timestamp{}
		return nil
	}
	text, err := jsontext.AppendUnquote(nil, b)
	if err != nil {
		return errors.New("no string with an RFC 3339 time such as 2025-06-05T06:12:33Z")
	}
	return t.UnmarshalText(text)
}

// UnmarshalText accepts RFC 3339 whose offset is zero.
func (t *Timestamp) UnmarshalText(b []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || b[len("2006-01-02T15")] != ':' || b[len("2006-01-02T15:04:05")] == ',' { // the parser takes T6 and ",5"
		return fmt.Errorf("%s is no RFC 3339 time such as 2025-06-05T06:12:33Z", quote(string(b)))
	}
	if _, offset := at.Zone(); offset != 0 {
		return fmt.Errorf("%s is not in UTC; write it with Z", quote(string(b)))
	}
	t.Time = at.UTC()
	return nil
}

func decodeHeader(raw []byte) (Header, error) {
	if len(raw) > MaxHeader {
		return Header{}, Errorf(TooLarge, StepDecode, "header is %d bytes; the limit is %d", len(raw), MaxHeader).
			WithHint("put business data into the payload")
	}
	if len(raw) == 0 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return Header{}, Errorf(Malformed, StepDecode, "header is not a JSON object without white space around it").WithHint(headerHint)
	}
	h, err := parseHeader(raw)
	if err != nil {
		return Header{}, Errorf(Malformed, StepDecode, "header: %s", jsonReason(err)).WithHint(headerHint)
	}
	if err := h.check(); err != nil {
		return Header{}, hinted(err, headerHint)
	}
	return h, nil
}

// parseHeader reads raw and fills in the defaults. A member that is null counts as absent, integers included.
func parseHeader(raw []byte) (h Header, err error) {
	wire := struct {
		*Header
		TTLSec   *int `json:"ttl_sec"` // these two stand in front of Header's own
		Priority *int `json:"priority"`
	}{Header: &h}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Header{}, err
	}
	h.TTLSec, h.Priority = orDefault(wire.TTLSec, DefaultTTL), orDefault(wire.Priority, DefaultPriority)
	if h.TraceID == "" {
		h.TraceID = h.MsgID
	}
	return h, nil
}

func orDefault(n *int, absent int) int {
	if n == nil {
		return absent
	}
	return *n
}

func (h *Header) check() error {
	switch h.Version {
	case Version:
	case "":
		return Errorf(Malformed, StepDecode, "header: version is missing; this node speaks %q", Version)
	default:
		return Errorf(Unsupported, StepDecode, "header: version is %s; this node speaks %q", quote(h.Version), Version)
	}
	for _, step := range []func(*Header) error{checkNames, checkTokens, checkNumbers, checkType} {
		if err := step(h); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(h *Header) error {
	if err := CheckAgentID("source_agent", h.SourceAgent); err != nil {
		return err
	}
	for _, f := range [...]struct{ field, id string }{
		{"target_agent", h.TargetAgent}, {"to_node", h.ToNode}, {"namespace", h.Namespace}, {"vouched_by", h.VouchedBy},
	} {
		if f.id == "" {
			continue
		}
		if err := CheckAgentID(f.field, f.id); err != nil {
			return err
		}
	}
	if len(h.Chain) > MaxChain {
		return Errorf(Loop, StepDecode, "chain has %d agents; the limit is %d", len(h.Chain), MaxChain).
			WithHint("agents are calling each other in a circle, or too deep: follow trace_id %s in their logs", h.TraceID)
	}
	for i, id := range h.Chain {
		if err := CheckAgentID(fmt.Sprintf("chain[%d]", i), id); err != nil {
			return err
		}
	}
	if h.TargetCapability != "" {
		return checkTarget(h.TargetCapability)
	}
	return nil
}

func checkTokens(h *Header) error {
	if err := CheckToken("msg_id", h.MsgID); err != nil {
		return err
	}
	for _, f := range [...]struct{ field, s string }{
		{"trace_id", h.TraceID}, {"traceparent", h.Traceparent}, {"in_reply_to", h.InReplyTo},
		{"conversation_id", h.ConversationID}, {"idempotency_key", h.IdempotencyKey},
	} {
		if f.s == "" {
			continue
		}
		if err := CheckToken(f.field, f.s); err != nil {
			return err
		}
	}
	return nil
}

func checkNumbers(h *Header) error {
	switch {
	case h.TTLSec < 1 || h.TTLSec > MaxTTL:
		return Errorf(Malformed, StepDecode, "ttl_sec is %d; it must be 1 to %d", h.TTLSec, MaxTTL)
	case h.Priority < 1 || h.Priority > 9:
		return Errorf(Malformed, StepDecode, "priority is %d; it must be 1 (most urgent) to 9", h.Priority)
	case h.Timestamp.IsZero():
		return Errorf(Malformed, StepDecode, "timestamp_utc is missing").WithHint("RFC 3339, for example 2025-06-05T06:12:33Z")
	}
	return nil
}

func checkType(h *Header) error {
	missing := func(field string) error {
		return Errorf(Malformed, StepDecode, "a %s needs %s", h.MsgType, field)
	}
	switch h.MsgType {
	case Request:
		if h.TargetCapability == "" && h.TargetAgent == "" {
			return missing("target_capability or target_agent")
		}
	case Broadcast:
		if h.TargetCapability == "" {
			return missing("target_capability")
		}
	case Response:
		if h.InReplyTo == "" {
			return missing("in_reply_to")
		}
		if h.Status != StatusOK && h.Status != StatusError {
			return Errorf(Malformed, StepDecode, "status is %s; it must be ok or error", quote(h.Status))
		}
	case Cancel:
		if h.InReplyTo == "" {
			return missing("in_reply_to")
		}
	case Register, Heartbeat, Unregister:
		if h.ToNode == "" {
			return missing("to_node, the id of the home node it is meant for")
		}
	default:
		return Errorf(Malformed, StepDecode, "msg_type is %s", quote(string(h.MsgType))).
			WithHint("request, response, heartbeat, broadcast, register, unregister or cancel")
	}
	return nil
}
