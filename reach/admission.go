package reach

import (
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/seen"
)

// AdmissionConfig is what a node demands of every message.
type AdmissionConfig struct {
	MaxPayload       int  // bytes
	RequireSignature bool // false: an unsealed message is taken at its word
	Keys             Keys
	Seen             *seen.Memory
	// Permissions is the administrator's table as it is now; nil: callers on this machine may do everything, others nothing.
	Permissions func() *envelope.Permissions
}

// Admission decides whether a message is let in. It is safe for concurrent use.
type Admission struct {
	cfg      AdmissionConfig
	verifier *envelope.Verifier
}

// rememberedRoots bounds the verified batch signatures kept, about 160 bytes each.
const rememberedRoots = 8192

// NewAdmission makes the rules of cfg.
func NewAdmission(cfg AdmissionConfig) *Admission {
	return &Admission{cfg, envelope.NewVerifier(rememberedRoots)}
}

// Admit applies all rules, cheapest first, and marks nothing: a message counts as seen only when Accept took it.
//
// Errors: TooLarge, Unsupported, ClockSkew, Expired, UnknownAgent, BadSeal, Duplicate, Overloaded (too many ids to remember), Forbidden.
func (a *Admission) Admit(m *Message, now time.Time) error {
	if err := a.form(m, now); err != nil {
		return err
	}
	if err := a.seal(m); err != nil {
		return err
	}
	if err := a.cfg.Seen.Seen(&m.Header, now); err != nil {
		return err
	}
	return a.permission(m)
}

// AdmitAs is Admit with the source's key given and no permission asked: for what agents say to their own node.
func (a *Admission) AdmitAs(m *Message, key envelope.PublicKey, now time.Time) error {
	if err := a.form(m, now); err != nil {
		return err
	}
	if err := a.verifier.Verify(m.Envelope, key); err != nil {
		return err
	}
	return a.cfg.Seen.Seen(&m.Header, now)
}

// Accept marks the message as seen. Of several with the same id exactly one is accepted; the others get Duplicate.
func (a *Admission) Accept(m *Message, now time.Time) error { return a.cfg.Seen.Accept(&m.Header, now) }

// Forget takes Accept back, for a message that was certainly not run.
func (a *Admission) Forget(m *Message) { a.cfg.Seen.Forget(&m.Header) }

func (a *Admission) form(m *Message, now time.Time) error {
	switch {
	case len(m.Payload) > a.cfg.MaxPayload:
		return envelope.Errorf(envelope.TooLarge, envelope.StepSize, "payload is %d bytes; the limit is %d", len(m.Payload), a.cfg.MaxPayload).
			WithHint("send a reference to the data, or have the administrator raise node.max_payload_bytes")
	case m.Header.Persistent:
		return envelope.Errorf(envelope.Unsupported, envelope.StepSize, "persistent: true asks for durable delivery, which this node does not serve yet").
			WithHint("send it with persistent: false, or keep it on a queue of your own")
	case m.Header.Namespace != "":
		return envelope.Errorf(envelope.Unsupported, envelope.StepSize, "namespace %q: this node serves no namespaces yet", m.Header.Namespace).
			WithHint("leave namespace out")
	}
	return seen.CheckClock(&m.Header, now)
}

func (a *Admission) seal(m *Message) error {
	if m.Seal == nil && !a.cfg.RequireSignature {
		return nil
	}
	key, ok := a.cfg.Keys.Key(m.Header.SourceAgent)
	if !ok {
		return envelope.Errorf(envelope.UnknownAgent, envelope.StepSeal, "%s is not registered here and not in the key store", m.Header.SourceAgent).
			WithHint("register first; the SDKs do so on their first call")
	}
	return a.verifier.Verify(m.Envelope, key)
}

func (a *Admission) permission(m *Message) error {
	target, err := envelope.ParseTarget(m.Header.TargetCapability)
	if m.Header.TargetCapability != "" && err != nil {
		return err
	}
	p := a.permissions(m)
	if m.Header.TargetAgent != "" && target.Name != "" {
		return p.Check(m.Header.SourceAgent, target.Name, m.Header.TargetAgent)
	}
	if target.Name == "" { // by agent alone: decided when its capability is known
		return nil
	}
	return p.CheckAny(m.Header.SourceAgent, target.Name)
}

var (
	openHere     = &envelope.Permissions{Default: true, Source: "none: no permissions_file, open to callers on this machine"}
	closedBeyond = &envelope.Permissions{Source: "none: without a permissions_file only callers on the node's own machine may call; set auth.permissions_file"}
)

func (a *Admission) permissions(m *Message) *envelope.Permissions {
	if a.cfg.Permissions != nil {
		if p := a.cfg.Permissions(); p != nil {
			return p
		}
	}
	if m.FromLoopback {
		return openHere
	}
	return closedBeyond
}
