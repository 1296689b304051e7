package ingress

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/reach"
)

// Config says who the node is and what it bears. A zero number means its default.
type Config struct {
	NodeID     string
	Key        envelope.PrivateKey
	Role       string
	Version    string   // the program's
	Addresses  []string // where the node is reached; none: the listener's address
	SelectMode string   // routing.select_mode, told by /v1/explain
	NoCalls    bool     // a registry only: queries are answered, calls are not carried

	MaxHops        int // nodes that may pass a message on; default 4
	MaxPayload     int // bytes of one payload; default envelope.DefaultMaxPayload
	MaxBodies      int // bytes of HTTP bodies held at once; default 64 payloads. Lower refuses large messages earlier under load
	MaxConnections int // open at once, links included; default 16384. One costs about 20 KiB
	MaxLinks       int // open at once; default 12288
	MaxCalls       int // in flight at once, over all connections; default 65536
	// DrainTimeout is how long running calls may go on after the end of Run's context; default 20 s.
	DrainTimeout time.Duration
}

func (c Config) withDefaults() Config {
	c.MaxHops = cmp.Or(c.MaxHops, 4)
	c.MaxPayload = cmp.Or(c.MaxPayload, envelope.DefaultMaxPayload)
	c.MaxBodies = cmp.Or(c.MaxBodies, 64*c.bodyLimit())
	c.MaxConnections = cmp.Or(c.MaxConnections, 16384)
	c.MaxLinks = cmp.Or(c.MaxLinks, 12288)
	c.MaxCalls = cmp.Or(c.MaxCalls, 65536)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 20*time.Second)
	return c
}

// bodyLimit is the most bytes that a document with a payload of MaxPayload can have.
func (c Config) bodyLimit() int { return c.MaxPayload + envelope.Overhead + envelope.MaxTicket }

// Via is how a message came in.
type Via struct {
	Link   *link.Link // nil: over HTTP
	Remote netip.Addr
}

// Registry keeps the agents attached here. The messages it is given are decoded, not yet admitted; its answers are sealed by the node.
type Registry interface {
	Register(ctx context.Context, m *reach.Message, via Via) (*envelope.Envelope, error)
	Heartbeat(ctx context.Context, m *reach.Message, via Via) (*envelope.Envelope, error)
	Unregister(ctx context.Context, m *reach.Message, via Via) (*envelope.Envelope, error)
	// Attach registers a keyless agent, on a message that the node's own key has sealed.
	Attach(ctx context.Context, m *reach.Message) (*envelope.Envelope, error)
	// Authorize judges whether the peer's proven key may speak for its id.
	Authorize(link.Peer) error
	LinkDown(agent string, l *link.Link, why error)
}

// Deps are the parts that a Server hands messages to.
type Deps struct {
	Ingress   *reach.Ingress
	Registry  Registry // nil: no agents attach to this node
	Directory *gossip.Directory
	Paths     *reach.Paths
	Admission *reach.Admission
	Home      *reach.Home
	Keys      reach.Keys
	// Observer is told of each message's arrival: Step StepDecode, with the message, or with an error and no message.
	Observer reach.Observer
	Metrics  http.Handler
	Ready    func() error // why the node cannot carry calls yet; nil when it can
	Log      *slog.Logger
}

// Server speaks HTTP and WebSocket to callers and agents.
type Server struct {
	cfg     Config
	deps    Deps
	handler http.Handler
	calls   gate
	bodies  budget
	flights *flights
	links   links
	leaving atomic.Bool
	running sync.WaitGroup // connections and links
	buffers sync.Pool      // of *[]byte
	address atomic.Pointer[string]
}

// New makes a Server; Run starts it.
func New(cfg Config, deps Deps) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, deps: deps,
		calls:   newGate(),
		flights: &flights{limit: cfg.MaxCalls, open: xsync.NewMap[callKey, *flight]()},
		links:   links{limit: cfg.MaxLinks, open: make(map[*link.Link]bool)},
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
	s.bodies.left.Store(int64(cfg.MaxBodies))
	s.handler = s.routes()
	return s
}

// Links is the number of links open or opening.
func (s *Server) Links() int { return s.links.count() }

// Limits in time and size that no user needs to know.
const (
	headerTime = 5 * time.Second   // for a request's header
	idleTime   = 120 * time.Second // between two requests of a connection
	maxHeader  = 64 << 10          // bytes
	flushTime  = time.Second       // for the last answers to leave, once all calls have ended
	lastWords  = time.Second       // for those who got the last answers to ask for the keys that they check them with
)

// Run serves until ctx ends, then drains, and returns nil; or the listener's error if that fails before. It closes l. A Server runs
// once.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	address := l.Addr().String()
	s.address.Store(&address)
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	server := s.httpServer(base)
	served := make(chan error, 1)
	go func() { served <- server.Serve(newListener(l, s.cfg.MaxConnections, &s.running)) }()
	var failure error
	select {
	case <-ctx.Done():
		s.drain()
	case failure = <-served:
		served <- failure
	}
	s.leaving.Store(true)
	cut(errLeaving)
	s.finish(server)
	<-served
	s.running.Wait()
	return failure
}

var errLeaving = envelope.Errorf(envelope.Unreachable, envelope.StepLink, "node is shutting down").WithHint("use another node, or try again shortly")

// drain takes no new calls and waits for the running ones.
func (s *Server) drain() {
	s.leaving.Store(true)
	s.links.goAway(errLeaving)
	patience := time.NewTimer(s.cfg.DrainTimeout)
	defer patience.Stop()
	empty := s.calls.shut()
	select {
	case <-empty: // nothing ran
		return
	default:
	}
	select {
	case <-empty:
		time.Sleep(lastWords)
	case <-patience.C:
		s.deps.Log.Warn("calls did not end in time and are cancelled", "reason", "drain timeout "+s.cfg.DrainTimeout.String())
	}
}

// finish lets the last answers leave and closes all connections.
func (s *Server) finish(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}

// httpServer speaks HTTP/1 only: HTTP/2 would open what is not limited here.
func (s *Server) httpServer(base context.Context) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      s.handler,
		Protocols:                    protocols,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnState:                    s.track,
		ErrorLog:                     slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug),
	}
}

// track counts the goroutines of connections; links count their own.
func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.running.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.running.Done()
	}
}
