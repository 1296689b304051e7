package registry

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/puzpuzpuz/xsync/v4"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// Config is what the administrator decides. A zero number or duration means its default.
type Config struct {
	HeartbeatTimeout time.Duration // silent this long: unavailable; default 90 s
	CapabilityTTL    time.Duration // silent this long: removed; default 180 s
	PruneInterval    time.Duration // leases are looked at when they are due, and at the latest this often; default 30 s
	FirstUse         bool          // the first key for an id is pinned; false: only keys in the key store may register
	PoolSize         int           // connections to one HTTP agent; default 64
	MaxPayload       int           // bytes; default envelope.DefaultMaxPayload
	QueuePerAgent    int           // requests that may wait for one agent; default 256; below 0: none
	MaxAgents        int           // default 100,000
	AttachedDir      string        // keys and descriptors of agents attached by the operator; empty: none can be attached
	Nodes            func() []string
}

func (c Config) withDefaults() Config {
	c.HeartbeatTimeout = cmp.Or(c.HeartbeatTimeout, 90*time.Second)
	c.CapabilityTTL = cmp.Or(c.CapabilityTTL, 180*time.Second)
	c.PruneInterval = cmp.Or(c.PruneInterval, 30*time.Second)
	c.MaxPayload = cmp.Or(c.MaxPayload, envelope.DefaultMaxPayload)
	c.QueuePerAgent = max(cmp.Or(c.QueuePerAgent, 256), 0)
	c.MaxAgents = cmp.Or(c.MaxAgents, 100_000)
	if c.Nodes == nil {
		c.Nodes = func() []string { return nil }
	}
	return c
}

// Deps are the parts of the node that a Registry works on.
type Deps struct {
	Node      string // this node's id
	Key       envelope.PrivateKey
	Home      *reach.Home
	Directory *gossip.Directory
	Schemas   *schema.Store
	Keys      *KeyStore
	Paths     *reach.Paths
	Admission *reach.Admission
	Log       *slog.Logger
}

// Registry keeps the agents attached to this node. It is safe for concurrent use.
type Registry struct {
	Deps
	cfg     Config
	entries *xsync.Map[string, *entry] // read without, written with mu
	tickets *lru.Cache[string, struct{}]

	attaching sync.Mutex // holds file and entry of an attached agent together

	mu      sync.Mutex
	leases  leases
	version uint64 // of the last record published
	queue   []*entry
	probers int // goroutines that probe
	trash   []trash
	wake    chan struct{} // something is due earlier than Run knows
}

// Via is how a message of an agent came in.
type Via struct {
	Link   *link.Link // nil over HTTP
	Remote netip.Addr // zero: a pipe within the process
}

// rememberedTickets bounds the tickets whose outcome was told already, about 100 bytes each.
const rememberedTickets = 1 << 16

// New makes a Registry and takes back in what the operator had attached; a file that cannot be used is logged and skipped.
func New(cfg Config, deps Deps) *Registry {
	tickets, err := lru.New[string, struct{}](rememberedTickets)
	if err != nil {
		panic(err) // a size under 1
	}
	r := &Registry{
		Deps: deps, cfg: cfg.withDefaults(), tickets: tickets,
		entries: xsync.NewMap[string, *entry](),
		wake:    make(chan struct{}, 1),
	}
	r.loadAttached()
	return r
}

// Run keeps leases and probes until ctx ends. All its goroutines have ended when it returns.
func (r *Registry) Run(ctx context.Context) error {
	var probers sync.WaitGroup
	defer r.closeAll()
	defer probers.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(r.tick(time.Now()))
		for range r.startProbers() {
			probers.Go(func() { r.probeAll(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-timer.C:
		}
	}
}

func (r *Registry) closeAll() {
	r.entries.Range(func(_ string, e *entry) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.current.close()
		e.next.close()
		return true
	})
}

func (r *Registry) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// View is an attached agent as people are shown it.
type View struct {
	*envelope.Record
	Heard            time.Time // its last sign of life
	Expires          time.Time // when its lease ends; zero: never
	Running, Waiting int       // requests
	Failures         int       // calls that failed in a row
	ByOperator       bool
}

// View is the agent with this id; false: it is not attached here.
func (r *Registry) View(id string) (View, bool) {
	e, ok := r.entries.Load(id)
	if !ok {
		return View{}, false
	}
	return r.view(e), true
}

// Views are all agents attached here, in no order.
func (r *Registry) Views() []View {
	out := make([]View, 0, r.entries.Size())
	r.entries.Range(func(_ string, e *entry) bool {
		out = append(out, r.view(e))
		return true
	})
	return out
}

func (r *Registry) view(e *entry) View {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := View{Record: e.record, Heard: e.heard, Failures: int(e.failures.Load()), ByOperator: e.attached}
	v.Running, v.Waiting = r.Home.Load(e.id)
	if !e.attached {
		v.Expires = e.heard.Add(r.cfg.CapabilityTTL)
	}
	return v
}
