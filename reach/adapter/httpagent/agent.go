package httpagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// DefaultPoolSize is how many connections an agent gets where the administrator set nothing.
const DefaultPoolSize = 64

// Config says where an agent listens and how it is spoken to.
type Config struct {
	Agent      string // its id
	URL        string
	PoolSize   int // connections to the agent at once; default DefaultPoolSize
	MaxPayload int // bytes of an answer's payload; default envelope.DefaultMaxPayload

	Node    string              // this node's id
	NodeKey envelope.PrivateKey // signs tickets and probes

	// For an agent with a key of its own:
	Key     envelope.PublicKey // seals its answers
	Callers reach.Keys         // the callers' keys, for the tickets

	// VouchKey, when set, makes it a keyless agent, whose answers this node seals with it.
	VouchKey envelope.PrivateKey
	// ProbeURL of a keyless agent must answer GET with 2xx; empty: URL must answer GET at all.
	ProbeURL string
}

// Agent is an agent behind an HTTP address. It implements reach.Agent and is safe for concurrent use.
type Agent struct {
	cfg   Config
	pool  *pool
	place string // scheme, host and path of URL, for messages
}

// New makes an Agent. It connects to nothing yet.
//
// Errors: Malformed for an address that is none.
func New(cfg Config) (*Agent, error) {
	cfg.PoolSize = cmp.Or(cfg.PoolSize, DefaultPoolSize)
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, envelope.DefaultMaxPayload)
	var u *url.URL
	for _, s := range []string{cmp.Or(cfg.ProbeURL, cfg.URL), cfg.URL} {
		var err error
		if u, err = url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, envelope.Errorf(envelope.Malformed, envelope.StepRegister, "%q of %s is no address of the form http://10.0.3.21:8080/rpc", s, cfg.Agent)
		}
	}
	place := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return &Agent{cfg, newPool(cfg.PoolSize), place.String()}, nil
}

// Call hands m over and passes the parts of the answer to sink.
func (a *Agent) Call(ctx context.Context, m *reach.Message, sink reach.Sink) error {
	call := a.callSealed
	if a.keyless() {
		call = a.callBare
	}
	err := call(ctx, m, sink)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w (%w)", err, context.Canceled)
	}
	return err
}

// Probe asks whether the agent is ready. It returns nil if it is, Overloaded if that cannot be told now because calls use every
// connection of the pool, and otherwise what it did instead of answering.
func (a *Agent) Probe(ctx context.Context) error {
	if a.keyless() {
		return a.probeBare(ctx)
	}
	return a.probeSealed(ctx)
}

// Close closes the idle connections. Running calls go on, and their connections close with them.
func (a *Agent) Close() { a.pool.close() }

func (a *Agent) keyless() bool { return !a.cfg.VouchKey.IsZero() }

// header is what every request to an agent carries beside its body.
func (a *Agent) header(ctx context.Context, h *envelope.Header) http.Header {
	out := http.Header{"Content-Type": {jsonType}, "User-Agent": {userAgent}}
	if deadline, ok := ctx.Deadline(); ok {
		out.Set("Agent-Reach-Timeout-Ms", strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 1), 10))
	}
	if h.Traceparent != "" {
		out.Set("Traceparent", h.Traceparent)
	}
	return out
}

// capability is the name that a message asks for, without its version range; empty where it names an agent only.
func capability(h *envelope.Header) string {
	target, err := envelope.ParseTarget(h.TargetCapability)
	if err != nil {
		return ""
	}
	return target.Name
}

const (
	userAgent   = "agent-reach/" + envelope.Version
	jsonType    = "application/json"
	linesType   = "application/x-ndjson"
	problemType = "application/problem+json"
)
