package envelope

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a descriptor.
const (
	MaxCapabilities = 512
	MaxSchema       = 64 << 10 // bytes of one schema
	maxText         = 8 << 10  // bytes of a description
	maxTags         = 32
	maxURL          = 2048 // bytes
)

// Defaults of a descriptor.
const (
	DefaultHeartbeatSec  = 30
	DefaultMaxConcurrent = 10
)

// Descriptor is everything an agent declares about itself when it registers.
type Descriptor struct {
	AgentID               string       `json:"agent_id"`
	DisplayName           string       `json:"display_name,omitzero"`
	Capabilities          []Capability `json:"capabilities"`
	Endpoint              Endpoint     `json:"endpoint,omitzero"`
	HeartbeatIntervalSec  int          `json:"heartbeat_interval_sec,omitzero"`  // default 30
	MaxConcurrentRequests int          `json:"max_concurrent_requests,omitzero"` // default 10
	CurrentLoad           float64      `json:"current_load,omitzero"`            // requests running or queued at the agent
	PublicKey             PublicKey    `json:"public_key,omitzero"`
}

// Capability is one thing an agent can do.
type Capability struct {
	Name         string         `json:"name"`
	Version      string         `json:"version"`
	InputSchema  jsontext.Value `json:"input_schema,omitzero"`  // JSON Schema 2020-12; absent or null: anything
	OutputSchema jsontext.Value `json:"output_schema,omitzero"` // the same
	Description  string         `json:"description,omitzero"`
	Tags         []string       `json:"tags,omitempty"`
	// Effect says whether a call may be repeated when nobody knows whether it ran: "read" and "idempotent" may, "unsafe" (the
	// default) may not.
	Effect Effect `json:"effect,omitzero"`
}

// Effect is what running a capability twice would do.
type Effect string

// The effects.
const (
	Read       Effect = "read"
	Idempotent Effect = "idempotent"
	Unsafe     Effect = "unsafe"
)

// Repeatable reports whether a second run does no harm.
func (e Effect) Repeatable() bool { return e == Read || e == Idempotent }

// Endpoint says how the agent is reached. The zero value is a link.
type Endpoint struct {
	Type        string `json:"type,omitzero"` // "link" or "http"
	URL         string `json:"url,omitzero"`
	ProbeURL    string `json:"probe_url,omitzero"`    // keyless agents: GET must answer 2xx; default: url must answer at all
	PreferProxy bool   `json:"prefer_proxy,omitzero"` // never handed out for direct calls
}

// The endpoint types served.
const (
	LinkEndpoint = "link"
	HTTPEndpoint = "http"
)

// DecodeDescriptor reads and checks a descriptor, and fills in its defaults. The error names every bad capability at once.
// Schemas are only measured here: compiling is package schema's.
func DecodeDescriptor(b []byte) (*Descriptor, error) {
	d := &Descriptor{}
	if err := json.Unmarshal(b, d, json.RejectUnknownMembers(true)); err != nil {
		return nil, Errorf(Malformed, StepRegister, "descriptor: %s", jsonReason(err)).WithHint(descriptorHint)
	}
	d.Endpoint.Type = cmp.Or(d.Endpoint.Type, LinkEndpoint)
	d.HeartbeatIntervalSec = cmp.Or(d.HeartbeatIntervalSec, DefaultHeartbeatSec)
	d.MaxConcurrentRequests = cmp.Or(d.MaxConcurrentRequests, DefaultMaxConcurrent)
	if err := d.check(); err != nil {
		return nil, hinted(err, descriptorHint)
	}
	return d, nil
}

const descriptorHint = `a descriptor is {"agent_id", "display_name", "capabilities": [{"name", "version", "input_schema", …}], "endpoint": {"type", "url"}, ` +
	`"heartbeat_interval_sec", "max_concurrent_requests", "public_key"}`

// HeartbeatInterval is heartbeat_interval_sec as a duration.
func (d *Descriptor) HeartbeatInterval() time.Duration {
	return time.Duration(d.HeartbeatIntervalSec) * time.Second
}

func (d *Descriptor) check() error {
	if err := CheckAgentID("agent_id", d.AgentID); err != nil {
		return err
	}
	if err := checkText("display_name", d.DisplayName, 256); err != nil {
		return err
	}
	switch {
	case d.HeartbeatIntervalSec < 1 || d.HeartbeatIntervalSec > 86400:
		return Errorf(Malformed, StepRegister, "heartbeat_interval_sec is %d; it must be 1 to 86400", d.HeartbeatIntervalSec)
	case d.MaxConcurrentRequests < 1 || d.MaxConcurrentRequests > 100_000:
		return Errorf(Malformed, StepRegister, "max_concurrent_requests is %d; it must be 1 to 100000", d.MaxConcurrentRequests)
	case !(d.CurrentLoad >= 0 && d.CurrentLoad <= 1e9):
		return Errorf(Malformed, StepRegister, "current_load is %v; it is a number of requests, 0 or more", d.CurrentLoad)
	case len(d.Capabilities) > MaxCapabilities:
		return Errorf(TooLarge, StepRegister, "%d capabilities; the limit is %d", len(d.Capabilities), MaxCapabilities)
	}
	if err := d.Endpoint.check(); err != nil {
		return err
	}
	return d.checkCapabilities()
}

func (d *Descriptor) checkCapabilities() error {
	var places []Place
	seen := make(map[string]int, len(d.Capabilities))
	for i := range d.Capabilities {
		c := &d.Capabilities[i]
		err := c.check()
		if first, twice := seen[c.Name]; err == nil && twice {
			err = fmt.Errorf("%s is declared at capabilities[%d] already", c.Name, first)
		}
		seen[c.Name] = i
		if err != nil {
			places = append(places, BadCapability(i, c.Name, err))
		}
	}
	return CapabilityErrors(d.AgentID, places)
}

// BadCapability is the place of one bad capability in a descriptor.
func BadCapability(index int, name string, err error) Place {
	text := err.Error()
	if e, ok := err.(*Error); ok {
		text = e.Text
	}
	return Place{Pointer: fmt.Sprintf("/capabilities/%d", index), Text: quote(name) + ": " + text}
}

// CapabilityErrors is the error for a descriptor with these bad capabilities, nil if there are none.
func CapabilityErrors(agent string, places []Place) error {
	if len(places) == 0 {
		return nil
	}
	e := Errorf(Malformed, StepRegister, "%d of the capabilities of %s cannot be registered; nothing was", len(places), agent)
	e.Places = places
	return e
}

func (c *Capability) check() error {
	if err := CheckCapability("name", c.Name); err != nil {
		return err
	}
	if _, err := ParseVersion(c.Version); err != nil {
		return err
	}
	if err := checkText("description", c.Description, maxText); err != nil {
		return err
	}
	if len(c.Tags) > maxTags {
		return Errorf(TooLarge, StepRegister, "%d tags; the limit is %d", len(c.Tags), maxTags)
	}
	for _, tag := range c.Tags {
		if err := checkText("tag", tag, 128); err != nil {
			return err
		}
	}
	for _, s := range []jsontext.Value{c.InputSchema, c.OutputSchema} {
		if len(s) > MaxSchema {
			return Errorf(TooLarge, StepRegister, "schema is %d bytes; the limit is %d", len(s), MaxSchema)
		}
	}
	switch c.Effect {
	case "", Read, Idempotent, Unsafe:
		return nil
	}
	return Errorf(Malformed, StepRegister, "effect is %s; it must be read, idempotent or unsafe", quote(string(c.Effect)))
}

func (e *Endpoint) check() error {
	switch e.Type {
	case LinkEndpoint:
		return nil
	case HTTPEndpoint:
	default:
		return Errorf(Unsupported, StepRegister, "endpoint type is %s; this node serves link and http", quote(e.Type))
	}
	if err := checkURL("endpoint.url", e.URL); err != nil {
		return err
	}
	if e.ProbeURL != "" {
		return checkURL("endpoint.probe_url", e.ProbeURL)
	}
	return nil
}

func checkURL(field, s string) error {
	if len(s) > maxURL {
		return Errorf(TooLarge, StepRegister, "%s is %d bytes; the limit is %d", field, len(s), maxURL)
	}
	u, err := url.Parse(s)
	if err == nil && u.User != nil {
		return Errorf(Malformed, StepRegister, "%s carries a password; it would be published with the record", field)
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return Errorf(Malformed, StepRegister, "%s is %s; it must be like http://10.0.3.21:8080/rpc", field, quote(s))
	}
	return nil
}

// checkText accepts UTF-8 for people: no control or direction-changing characters but tab and newline.
func checkText(field, s string, limit int) error {
	if len(s) > limit {
		return Errorf(TooLarge, StepRegister, "%s is %d bytes; the limit is %d", field, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return Errorf(Malformed, StepRegister, "%s is not UTF-8", field)
	}
	i := strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || unicode.Is(unicode.Bidi_Control, r)
	})
	if i >= 0 {
		return Errorf(Malformed, StepRegister, "%s has %s at byte %d", field, describeRune(s[i:]), i)
	}
	return nil
}
