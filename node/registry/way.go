package registry

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach/adapter/httpagent"
	"github.com/agent-reach/agent-reach/reach/adapter/linkagent"
)

// way is how an agent is to be reached, beside what its descriptor says.
type way struct {
	via   Via
	key   envelope.PublicKey
	vouch envelope.PrivateKey // set: a keyless agent
}

// prepare makes a registration of a descriptor: schemas compiled, the way to the agent ready. The caller drops its schemas if it does not
// use it.
func (r *Registry) prepare(ctx context.Context, d *envelope.Descriptor, w way) (*registration, error) {
	g := &registration{descriptor: d, proven: make(chan struct{})}
	if err := r.connect(ctx, g, w); err != nil {
		return nil, err
	}
	var err error
	g.offers, g.schemas, err = r.capabilities(d)
	return g, err
}

func (r *Registry) connect(ctx context.Context, g *registration, w way) (err error) {
	if g.descriptor.Endpoint.Type == envelope.HTTPEndpoint {
		g.distance = distance(lookUp(ctx, g.descriptor.Endpoint.URL))
		g.http, err = r.httpAgent(g.descriptor, w)
		g.agent = g.http
		return err
	}
	g.distance = distance(w.via.Remote)
	l := w.via.Link
	switch {
	case l == nil && len(g.descriptor.Capabilities) == 0:
		return nil // it calls over HTTP, and is never called
	case l == nil:
		return refuse(envelope.Malformed, "%s offers capabilities over a link, but registers without one", g.descriptor.AgentID).
			WithHint(`open a link (GET /v1/link) and register over it, or give an endpoint of type "http" with its url`)
	case l.Peer().ID != g.descriptor.AgentID || l.Peer().Key != w.key:
		return refuse(envelope.Forbidden, "%s registers over a link of %s; an agent is reached over its own link only", g.descriptor.AgentID, l.Peer().ID)
	}
	g.link, g.agent = l, linkagent.New(l)
	return nil
}

func (r *Registry) httpAgent(d *envelope.Descriptor, w way) (*httpagent.Agent, error) {
	cfg := httpagent.Config{
		Agent: d.AgentID, URL: d.Endpoint.URL,
		PoolSize: r.cfg.PoolSize, MaxPayload: r.cfg.MaxPayload,
		Node: r.Node, NodeKey: r.Key,
		Key: w.key, Callers: callers{r},
		VouchKey: w.vouch,
	}
	if !w.vouch.IsZero() {
		cfg.ProbeURL = d.Endpoint.ProbeURL
	}
	return httpagent.New(cfg)
}

// callers finds the keys of whoever may call an agent here: the key store's, else the directory's; the operator calls as the node.
type callers struct{ r *Registry }

func (c callers) Key(agent string) (envelope.PublicKey, bool) {
	if agent == c.r.Node {
		return c.r.Key.Public(), true
	}
	if key, ok := c.r.Keys.Key(agent); ok {
		return key, true
	}
	if rec := c.r.Directory.Agent(agent); rec != nil {
		return rec.Key, true
	}
	return envelope.PublicKey{}, false
}

// distance is the last factor of a path's score: 1 for this machine (and for a pipe within the process), 0.7 for the local network,
// 0.3 for whatever is further away.
func distance(a netip.Addr) float64 {
	a = a.Unmap()
	switch {
	case !a.IsValid() || a.IsLoopback():
		return 1
	case a.IsPrivate() || a.IsLinkLocalUnicast():
		return 0.7
	}
	return 0.3
}

const lookUpTimeout = time.Second

// lookUp is the address that a URL names; one that cannot be found now counts as far away.
func lookUp(ctx context.Context, rawURL string) netip.Addr {
	u, err := url.Parse(rawURL)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil || len(found) == 0 {
		return netip.IPv4Unspecified()
	}
	return found[0]
}
