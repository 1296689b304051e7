package envelope

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxTicket is the longest ticket document, in bytes, and MaxTicketLife the longest time one may live.
const (
	MaxTicket     = 2048
	MaxTicketLife = 60 * time.Second
)

const ticketDomain = "agent-reach/3.0 ticket"

// Ticket is a node's word that Caller may call Capability on Agent until Expires: what a called agent can check by itself.
type Ticket struct {
	ID         string    `json:"id"`
	Node       string    `json:"node"`
	Caller     string    `json:"caller"`
	CallerKey  PublicKey `json:"caller_key"`
	Capability string    `json:"capability"` // empty: a readiness probe
	Agent      string    `json:"agent"`
	Expires    Timestamp `json:"expires_utc"`
}

type ticketDocument struct {
	Body jsontext.Value `json:"body"`
	Sig  base64Bytes    `json:"sig"`
}

// SealTicket writes t's document, signed by the node's key.
func SealTicket(key PrivateKey, t Ticket) ([]byte, error) {
	body, err := json.Marshal(&t)
	if err != nil {
		return nil, Errorf(Malformed, StepTicket, "%s", jsonReason(err))
	}
	return json.Marshal(&ticketDocument{Body: body, Sig: key.SignFor(ticketDomain, body)})
}

// OpenTicket reads a ticket document and checks that the node with this key signed it and that it has not expired, with
// ClockTolerance between the node's clock and now.
func OpenTicket(doc []byte, node PublicKey, now time.Time) (Ticket, error) {
	if len(doc) > MaxTicket {
		return Ticket{}, Errorf(TooLarge, StepTicket, "ticket is %d bytes; the limit is %d", len(doc), MaxTicket)
	}
	var d ticketDocument
	if err := json.Unmarshal(doc, &d, json.RejectUnknownMembers(true)); err != nil {
		return Ticket{}, Errorf(Malformed, StepTicket, "%s", jsonReason(err))
	}
	if !node.VerifyFor(ticketDomain, d.Body, d.Sig) {
		return Ticket{}, Errorf(BadSeal, StepTicket, "ticket is not signed by this agent's home node")
	}
	var t Ticket
	if err := json.Unmarshal(d.Body, &t); err != nil {
		return Ticket{}, Errorf(Malformed, StepTicket, "%s", jsonReason(err))
	}
	if err := t.checkTime(now); err != nil {
		return Ticket{}, err
	}
	return t, nil
}

func (t *Ticket) checkTime(now time.Time) error {
	left := t.Expires.Sub(now)
	switch {
	case left < -ClockTolerance:
		return Errorf(Expired, StepTicket, "ticket expired %v ago; %v are tolerated between two clocks", (-left).Round(time.Millisecond), ClockTolerance).
			WithHint("look up again; if this ticket is fresh, this clock is ahead of the node's: set both by NTP")
	case left > MaxTicketLife+ClockTolerance:
		return Errorf(ClockSkew, StepTicket, "ticket is good for another %v, though none lives longer than %v: this clock is behind the node's",
			left.Round(time.Millisecond), MaxTicketLife).WithHint("set both clocks by NTP")
	}
	return nil
}

// Admits checks that the ticket is for exactly this call: e's source asking agent for a capability.
func (t *Ticket) Admits(e *Envelope, agent string) error {
	target, _ := ParseTarget(e.Header.TargetCapability)
	if t.Caller != e.Header.SourceAgent || t.Agent != agent || t.Capability != target.Name {
		return Errorf(Forbidden, StepTicket, "ticket lets %s call %q on %s, not %s call %q on %s",
			t.Caller, t.Capability, t.Agent, e.Header.SourceAgent, target.Name, agent)
	}
	return nil
}
