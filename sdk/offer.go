package sdk

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

// Handler answers one request. What it returns becomes JSON; a jsontext.Value is sent as it stands, and nil as an answer without payload. Its error
// becomes an AgentError at the caller. ctx ends at the caller's deadline and when the caller gives up. It may be called by several goroutines at once,
// as many as WithMaxConcurrent allows. A panic is caught, logged, and answered as an error.
type Handler func(ctx context.Context, req *Request) (any, error)

// StreamHandler answers one request in parts: each send gives one, in order, and waits while the caller is slow to take them. Its error
// follows the parts sent. An answer of no part becomes one part without payload. send must not be used after it returned.
type StreamHandler func(ctx context.Context, req *Request, send func(part any) error) error

// Request is what a handler is asked.
type Request struct {
	Header  envelope.Header // Header.SourceAgent asks
	Payload []byte          // JSON, or nothing; the node has checked it against the input schema
}

// Decode reads the payload into v, as encoding/json would but stricter; a request without payload leaves v as it is. Its error, when the handler
// returns it, tells the caller "schema_invalid".
func (r *Request) Decode(v any) error {
	if len(r.Payload) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Payload, v); err != nil {
		return &AgentError{Code: string(envelope.SchemaError), Text: err.Error()}
	}
	return nil
}

// Func makes a Handler of a function with its own types for what comes in and goes out.
func Func[In, Out any](f func(ctx context.Context, in In) (Out, error)) Handler {
	return func(ctx context.Context, req *Request) (any, error) {
		var in In
		if err := req.Decode(&in); err != nil {
			return nil, err
		}
		return f(ctx, in)
	}
}

// offer is a capability with what serves it.
type offer struct {
	Capability
	plain  Handler // nil: stream
	stream StreamHandler
	off    bool
}

// Handle offers a capability. Also a running agent may offer more. A capability that cannot be registered makes Run and every call fail, with
// the reason.
func (a *Agent) Handle(c Capability, h Handler) { a.offer(&offer{Capability: c, plain: h}) }

// HandleStream is Handle for answers in parts.
func (a *Agent) HandleStream(c Capability, h StreamHandler) {
	a.offer(&offer{Capability: c, stream: h})
}

func (a *Agent) offer(o *offer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := append(slices.Clip(a.offers), o)
	if err := fault(a.describe(more, 0)); err != nil {
		a.faults = append(a.faults, err)
		return
	}
	a.offers = more
	poke(a.renew)
}

// Switch turns a capability off, or on again, without unregistering it: busy hours. The node hears it at once and gives the agent no new
// calls for it.
//
// Errors: NoRoute for a capability that the agent does not offer.
func (a *Agent) Switch(capability string, on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.offers {
		if o.Name == capability {
			o.off = !on
			poke(a.beat)
			return nil
		}
	}
	return envelope.Errorf(envelope.NoRoute, envelope.StepConfig, "%s does not offer %q", a.id, capability)
}

// offered lists the capabilities that are switched on.
func (a *Agent) offered() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := make([]string, 0, len(a.offers))
	for _, o := range a.offers {
		if !o.off {
			names = append(names, o.Name)
		}
	}
	return names
}

// find is the offer that the request asks for. A request for the agent by its id alone means its only one.
func (a *Agent) find(h *envelope.Header) (*offer, error) {
	if h.MsgType != envelope.Request && h.MsgType != envelope.Broadcast {
		return nil, envelope.Errorf(envelope.Unsupported, envelope.StepDeliver, "an agent answers requests and broadcasts, not msg_type %s", h.MsgType)
	}
	if h.TargetAgent != "" && h.TargetAgent != a.id {
		return nil, envelope.Errorf(envelope.NoRoute, envelope.StepDeliver, "this is %s, not %s", a.id, h.TargetAgent)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.TargetCapability == "" && len(a.offers) == 1 {
		return a.offers[0], nil
	}
	name, err := envelope.ParseTarget(h.TargetCapability)
	if err != nil {
		return nil, err
	}
	for _, o := range a.offers {
		if o.Name == name.Name {
			return o, o.admits(name)
		}
	}
	return nil, envelope.Errorf(envelope.NoRoute, envelope.StepDeliver, "%s does not offer %q", a.id, h.TargetCapability)
}

func (o *offer) admits(t envelope.Target) error {
	v, err := envelope.ParseVersion(o.Version)
	if err == nil && !t.Admits(v) {
		return envelope.Errorf(envelope.NoRoute, envelope.StepDeliver, "version %s of %s is offered, which is outside what is asked for", o.Version, o.Name)
	}
	return err
}

// describe is what the agent registers with these offers.
func (a *Agent) describe(offers []*offer, load float64) *envelope.Descriptor {
	d := &envelope.Descriptor{
		AgentID:               a.id,
		DisplayName:           a.cfg.displayName,
		Capabilities:          make([]Capability, len(offers)),
		Endpoint:              a.cfg.endpoint,
		HeartbeatIntervalSec:  a.cfg.heartbeat,
		MaxConcurrentRequests: a.cfg.limit,
		CurrentLoad:           load,
		PublicKey:             a.PublicKey(),
	}
	for i, o := range offers {
		d.Capabilities[i] = o.Capability
	}
	return d
}

func (a *Agent) descriptor() *envelope.Descriptor {
	a.mu.Lock()
	offers := a.offers
	a.mu.Unlock()
	return a.describe(offers, a.load())
}

// load is what heartbeats report, in requests.
func (a *Agent) load() float64 {
	if a.cfg.load != nil {
		return a.cfg.load()
	}
	return float64(a.slots.running())
}

// fault is what a node would refuse d for, as far as it can be seen from here.
func fault(d *envelope.Descriptor) error {
	b, err := json.Marshal(d)
	if err != nil {
		return envelope.Errorf(envelope.Malformed, envelope.StepRegister, "descriptor: %v", err)
	}
	_, err = envelope.DecodeDescriptor(b)
	return err
}
