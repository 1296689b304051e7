package sdk

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// Capability is one thing an agent can do: Name, Version ("1.0.0"), and optionally InputSchema, OutputSchema, Description, Tags, Effect.
type Capability = envelope.Capability

// Schema is JSON text: sdk.Schema(`{"type": "object"}`).
type Schema = jsontext.Value

// Agent is one agent of the network: it answers, calls and looks up. It is safe for concurrent use.
type Agent struct {
	id       string
	cfg      *config
	http     *http.Client
	sealer   sealer
	verifier *envelope.Verifier
	keys     keyring
	direct   ranking
	replays  replays
	slots    slots
	outcomes outcomes

	beat  chan struct{} // holds an element: a heartbeat is due now
	soon  chan struct{} // holds an element: one is due within reportAfter
	renew chan struct{} // holds an element: the descriptor changed, or the node forgot us

	mu      sync.Mutex
	offers  []*offer
	faults  []error // of Handle
	link    linkState
	changed chan struct{} // closed and replaced when link changes
	cancel  context.CancelFunc
	quit    chan struct{} // closed when the agent has left its node: what lingers ends
	done    chan struct{} // closed when nothing of the agent runs any more
	tasks   sync.WaitGroup
	drained sync.Once
}

// linkState is where the agent stands with its nodes.
type linkState struct {
	session *session // nil: not attached
	ever    bool     // there was one
	home    *home    // the last node attached to; HTTPHandler checks tickets with its key
	rounds  int      // unsuccessful tries so far
	last    error    // of the last unsuccessful one
	ended   error    // why no call can be made any more
}

// home is a node's identity as its link proved it.
type home struct {
	url    string
	id     string
	key    envelope.PublicKey
	offset time.Duration // its clock minus ours
}

// verifiedRoots bounds the batch signatures remembered, about 160 bytes each.
const verifiedRoots = 1024

// New makes the agent with that id. Nothing is sent before Run or the first call.
//
// Errors: Malformed for an id, option or key file that cannot be.
func New(id string, options ...Option) (*Agent, error) {
	if err := envelope.CheckAgentID("agent id", id); err != nil {
		return nil, err
	}
	cfg, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		id:       id,
		cfg:      cfg,
		http:     newHTTPClient(),
		sealer:   sealer{key: cfg.key},
		verifier: envelope.NewVerifier(verifiedRoots),
		slots:    newSlots(cfg.limit),
		beat:     make(chan struct{}, 1),
		soon:     make(chan struct{}, 1),
		renew:    make(chan struct{}, 1),
		changed:  make(chan struct{}),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	if err := fault(a.describe(nil, 0)); err != nil {
		return nil, err
	}
	return a, nil
}

// ID is the agent's id.
func (a *Agent) ID() string { return a.id }

// PublicKey is the key that proves what this agent says.
func (a *Agent) PublicKey() envelope.PublicKey { return a.cfg.key.Public() }

// Run attaches the agent to a node and serves until ctx ends; then it drains and returns nil. Lost links are made anew.
// With the context of signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt) a process leaves so when it is told to stop.
//
// Errors: that of a Handle that went wrong; what every node refuses for good (Conflict, BadSeal, Malformed, UnknownAgent, ClockSkew, …). Unreachable nodes
// are tried again for ever.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.start(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-a.done:
	}
	a.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(a.link.ended, errClosed) {
		return nil
	}
	return a.link.ended
}

// Close drains the agent as the end of Run's context does, and waits for it: at most the drain time and a few seconds.
func (a *Agent) Close() {
	a.mu.Lock()
	cancel := a.cancel
	if cancel == nil && a.link.ended == nil {
		a.link.ended = closed()
		close(a.done)
	}
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	<-a.done
	a.http.CloseIdleConnections()
}

// errClosed marks the end that Close brought about.
var errClosed = errors.New("closed")

func closed() error {
	return &caused{envelope.Errorf(envelope.Unreachable, envelope.StepCall, "this agent is closed"), errClosed}
}

// start sets the agent going, the first time it is called.
func (a *Agent) start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.faults) > 0:
		return errors.Join(a.faults...)
	case a.link.ended != nil:
		return a.link.ended
	case a.cancel != nil:
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() {
		defer close(a.done)
		err := a.supervise(ctx)
		a.drain()
		a.shift(func(l *linkState) { l.session, l.ended = nil, err })
		close(a.quit)
		a.tasks.Wait()
	}()
	return nil
}

// shift changes the link's state and wakes whoever waits for it.
func (a *Agent) shift(change func(*linkState)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.link)
	close(a.changed)
	a.changed = make(chan struct{})
}

// look is the link's state now, and a channel that closes when it changes.
func (a *Agent) look() (linkState, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.link, a.changed
}

// home is the last node attached to, nil before the first.
func (a *Agent) home() *home {
	l, _ := a.look()
	return l.home
}

// attached waits for a link on which the agent is registered. An agent that never had one fails with the next unsuccessful try; one that lost it
// waits until ctx ends.
func (a *Agent) attached(ctx context.Context) (*session, error) {
	if err := a.start(); err != nil {
		return nil, err
	}
	first, changed := a.look()
	for now := first; ; now, changed = a.look() {
		switch {
		case now.session != nil:
			return now.session, nil
		case now.ended != nil:
			return nil, now.ended
		case !now.ever && now.rounds > first.rounds:
			return nil, now.last
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ended(ctx, notAttached(now.last))
		}
	}
}

func notAttached(last error) *envelope.Error {
	e := envelope.Errorf(envelope.Unreachable, envelope.StepLink, "no node was reached in time")
	if last == nil {
		return e
	}
	return e.WithHint("the last try said: %v", last)
}

// poke puts an element into a channel that holds one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
