package node

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/seen"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/node/ingress"
	"github.com/agent-reach/agent-reach/node/metrics"
	"github.com/agent-reach/agent-reach/node/registry"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// Node is one agent-reach process. New makes it, Run runs it once.
type Node struct {
	cfg Config
	log *slog.Logger
	id  string
	key envelope.PrivateKey

	store       *registry.KeyStore
	permissions *Permissions // nil: no table
	seen        *seen.Memory
	directory   *gossip.Directory
	paths       *reach.Paths
	admission   *reach.Admission
	home        *reach.Home
	schemas     *schema.Store
	registry    *registry.Registry
	metrics     *metrics.Metrics
	reach       *reach.Ingress
	ingress     *ingress.Server
	ready       atomic.Bool
}

// New reads the node's files (its key, made on the first start; the key store; the permission table) and joins the parts. Nothing
// runs yet and no port is open.
func New(cfg Config, version string, log *slog.Logger) (*Node, error) {
	n := &Node{cfg: cfg, log: log, directory: gossip.NewDirectory(), schemas: schema.NewStore()}
	for _, open := range []func() error{n.openKey, n.openStore, n.openPermissions} {
		if err := open(); err != nil {
			return nil, err
		}
	}
	n.joinReach(version)
	return n, nil
}

// ID is the node's id: its key's fingerprint.
func (n *Node) ID() string { return n.id }

func (n *Node) openKey() (err error) {
	var created bool
	n.key, created, err = envelope.LoadOrCreateKey(n.cfg.Node.PrivateKeyPath, KeyPassphrase())
	if err != nil {
		return err
	}
	n.id = n.key.Public().Fingerprint()
	n.seen = seen.New(seen.Config{Since: forgottenUntil(created, time.Now())})
	if created {
		n.log.Info("node key made", "file", n.cfg.Node.PrivateKeyPath, "node", n.id)
	}
	return nil
}

// forgottenUntil is the moment before which messages may have been accepted by an earlier process of this node, whose memory is gone: they are
// refused, so that a restart never lets a message run twice. A node whose key was made just now has no past.
func forgottenUntil(created bool, now time.Time) time.Time {
	if created {
		return time.Time{}
	}
	return now
}

func (n *Node) openStore() (err error) {
	n.store, err = registry.OpenKeyStore(n.cfg.Auth.PublicKeyStore)
	return err
}

func (n *Node) openPermissions() (err error) {
	if n.cfg.Auth.PermissionsFile == "" {
		n.log.Info("no permissions_file: open to callers on this machine, closed to others")
		return nil
	}
	n.permissions, err = OpenPermissions(n.cfg.Auth.PermissionsFile)
	return err
}

// joinReach makes the parts from the inside out.
func (n *Node) joinReach(version string) {
	n.paths = reach.NewPaths(n.cfg.Routing.ScoreWeights)
	n.admission = reach.NewAdmission(reach.AdmissionConfig{
		MaxPayload: n.cfg.Node.MaxPayloadBytes, RequireSignature: n.cfg.Auth.RequireSignature, Keys: n, Seen: n.seen, Permissions: n.table,
	})
	n.home = reach.NewHome(reach.HomeConfig{Node: n.id, Admission: n.admission, Paths: n.paths})
	if n.cfg.Node.Role.TakesAgents() {
		n.registry = n.newRegistry()
	}
	n.metrics = metrics.New(version, metrics.Sources{
		QueueDepth: n.home.Waiting, States: n.states, Links: func() int { return n.ingress.Links() },
		SeenIDs: func() int { return n.seen.Stats().IDs },
	})
	n.reach = n.newReach()
	n.ingress = n.newIngress(version)
}

func (n *Node) newRegistry() *registry.Registry {
	r, keys := n.cfg.Registry, filepath.Dir(n.cfg.Auth.PublicKeyStore)
	return registry.New(registry.Config{
		HeartbeatTimeout: r.HeartbeatTimeoutSec.Duration(), CapabilityTTL: r.CapabilityTTLSec.Duration(), PruneInterval: r.PruneIntervalSec.Duration(),
		FirstUse: n.cfg.Auth.Enrollment == FirstUse, PoolSize: n.cfg.Routing.ConnectionPoolSize, MaxPayload: n.cfg.Node.MaxPayloadBytes,
		QueuePerAgent: cmp.Or(n.cfg.Routing.QueuePerAgent, -1), MaxAgents: n.cfg.Node.MaxAgents, AttachedDir: filepath.Join(keys, "attached"),
	}, registry.Deps{
		Node: n.id, Key: n.key, Home: n.home, Directory: n.directory, Schemas: n.schemas, Keys: n.store, Paths: n.paths,
		Admission: n.admission, Log: n.log,
	})
}

func (n *Node) newReach() *reach.Ingress {
	r := n.cfg.Routing
	return reach.NewIngress(reach.IngressConfig{
		Node: n.id, Admission: n.admission, Directory: n.directory, Schemas: n.schemas, Paths: n.paths, Home: n.home,
		Observer: n.observers(),
		Routing:  reach.Routing{Mode: reach.Mode(r.SelectMode), TopN: r.SelectTopN, Retry: r.RetryOnFailure, MaxRetry: r.MaxRetryCount},
	})
}

func (n *Node) newIngress(version string) *ingress.Server {
	deps := ingress.Deps{
		Ingress: n.reach, Directory: n.directory, Paths: n.paths, Admission: n.admission, Home: n.home, Keys: n,
		Observer: n.metrics, Metrics: n.metrics.Handler(), Ready: n.isReady, Log: n.log,
	}
	if n.registry != nil {
		deps.Registry = attachments{n.registry}
	}
	return ingress.New(ingress.Config{
		NodeID: n.id, Key: n.key, Role: string(n.cfg.Node.Role), Version: version, SelectMode: n.cfg.Routing.SelectMode,
		NoCalls: !n.cfg.Node.Role.CarriesCalls(), MaxHops: n.cfg.Routing.MaxHops, MaxPayload: n.cfg.Node.MaxPayloadBytes, MaxConnections: n.cfg.Node.MaxConnections, MaxLinks: n.cfg.Node.MaxLinks,
		DrainTimeout: n.cfg.Node.DrainTimeoutSec.Duration(),
	}, deps)
}

// Key finds the key that an agent's seals are checked with: the pinned one, else the one it is registered with. The node's own id has
// the node's key.
func (n *Node) Key(agent string) (envelope.PublicKey, bool) {
	if agent == n.id {
		return n.key.Public(), true
	}
	if key, ok := n.store.Key(agent); ok {
		return key, true
	}
	if r := n.directory.Agent(agent); r != nil {
		return r.Key, true
	}
	return envelope.PublicKey{}, false
}

func (n *Node) table() *envelope.Permissions {
	if n.permissions == nil {
		return nil
	}
	return n.permissions.Table()
}

func (n *Node) states() map[envelope.State]int {
	count := make(map[envelope.State]int)
	for _, r := range n.directory.Agents() {
		count[r.State]++
	}
	return count
}

func (n *Node) isReady() error {
	if !n.ready.Load() {
		return envelope.Errorf(envelope.Unreachable, envelope.StepConfig, "node is starting")
	}
	return nil
}

// Run opens the port and serves until ctx ends; then it drains and returns nil. All goroutines have ended when it returns.
func (n *Node) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", n.cfg.Node.ListenAddr)
	if err != nil {
		return envelope.Errorf(envelope.Conflict, envelope.StepConfig, "cannot listen on %s: %v", n.cfg.Node.ListenAddr, err).
			WithHint("is another node running? set node.listen_addr")
	}
	n.announce(l.Addr())
	return n.runParts(ctx, l)
}

func (n *Node) announce(addr net.Addr) {
	if peers := n.cfg.Members(); len(peers) > 0 {
		n.log.Warn("gossip_peers and bootstrap members are not contacted: this version is a network of one node", "peers", len(peers))
	}
	n.log.Info("node listening", "node", n.id, "addr", addr.String())
	n.ready.Store(true)
	n.log.Info("gossip sync complete", "peers", 0, "registered_agents", n.directory.Len())
}

// attachments fits the registry to what ingress asks for: neither knows the other.
type attachments struct{ *registry.Registry }

func (a attachments) Register(ctx context.Context, m *reach.Message, via ingress.Via) (*envelope.Envelope, error) {
	return a.Registry.Register(ctx, m, registry.Via(via))
}

func (a attachments) Heartbeat(ctx context.Context, m *reach.Message, via ingress.Via) (*envelope.Envelope, error) {
	return a.Registry.Heartbeat(ctx, m, registry.Via(via))
}

func (a attachments) Unregister(ctx context.Context, m *reach.Message, via ingress.Via) (*envelope.Envelope, error) {
	return a.Registry.Unregister(ctx, m, registry.Via(via))
}

// observers is everybody who wants to know of reach's steps.
type observers []reach.Observer

// Observe tells all.
func (o observers) Observe(ev reach.Event) {
	for _, one := range o {
		one.Observe(ev)
	}
}

func (n *Node) observers() observers {
	var calls *slog.Logger
	if n.cfg.Logging.AccessLogEnabled {
		calls = n.cfg.Logging.Logger(os.Stdout)
	}
	all := observers{n.metrics, NewAccessLog(calls, n.log)}
	if n.registry != nil {
		all = append(all, judge{n.registry, n.id})
	}
	return all
}

// judge tells the registry how hand-overs to its agents ended.
type judge struct {
	registry *registry.Registry
	node     string
}

// Observe looks at judged hand-overs only.
func (j judge) Observe(ev reach.Event) {
	if ev.Step == envelope.StepForward && ev.Node == j.node && ev.Path != reach.Unjudged {
		j.registry.Outcome(ev.Agent, ev.Path == reach.Failed)
	}
}
