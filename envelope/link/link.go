package link

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Role says what stands at one end of a link.
type Role string

// The roles.
const (
	Agent Role = "agent"
	Node  Role = "node"
)

// Peer is the other side, proven to hold Key.
type Peer struct {
	Role        Role
	ID          string
	Key         envelope.PublicKey
	ClockOffset time.Duration // the peer's clock minus ours, as seen when its hello arrived
}

// Config says who we are and what we bear. A zero number means its default.
type Config struct {
	Role Role
	ID   string
	Key  envelope.PrivateKey

	MaxMessage   int           // bytes of one encoded envelope; default envelope.DefaultMaxPayload + envelope.Overhead
	MaxCalls     int           // inbound calls open at once; default 1024
	Window       int           // bytes on the way to us in one direction of one call; default 256 KiB, at least 1 KiB
	MaxBuffered  int           // bytes announced and not yet taken, over all calls; default 64 MiB
	StallTimeout time.Duration // default 30 s
	PingInterval time.Duration // default 15 s

	// Authorize judges the peer, which has proven its key; its error goes to the peer as goaway. The acceptor is asked before it
	// gives its own proof. Nil accepts.
	Authorize func(Peer) error
	// Log gets panics of handlers and breaches of the protocol; nil means slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.MaxMessage = cmp.Or(c.MaxMessage, envelope.DefaultMaxPayload+envelope.Overhead)
	c.MaxCalls = cmp.Or(c.MaxCalls, 1024)
	c.Window = min(max(cmp.Or(c.Window, 256<<10), minWindow), maxWindow)
	c.MaxBuffered = cmp.Or(c.MaxBuffered, 64<<20)
	c.StallTimeout = cmp.Or(c.StallTimeout, 30*time.Second)
	c.PingInterval = cmp.Or(c.PingInterval, 15*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// How long a closing link waits for its last words to be written, and then for the peer to have read them.
const (
	goodbyeTime = 250 * time.Millisecond
	lingerTime  = 100 * time.Millisecond
)

// Handler answers one inbound call. ctx ends when the asker cancels, the deadline passes or the link breaks; context.Cause(ctx) says
// which. The error becomes the end of the call as the asker sees it; after SendLast it has nowhere to go and is counted only.
type Handler func(ctx context.Context, in *Inbound) error

// Link is one link. All methods are safe for concurrent use. What is asked before Run is sent once Run goes.
type Link struct {
	conn   io.ReadWriteCloser
	in     *bufio.Reader // the reader's
	cfg    Config
	peer   Peer
	limits limits
	parity uint32 // of our call numbers

	wake    chan struct{} // something waits for the writer
	dying   chan struct{} // closed with the first failure
	severed chan struct{} // closed when the stream is
	done    chan struct{} // closed when nothing runs any more
	parting chan struct{} // closed by the peer's first goaway
	tasks   sync.WaitGroup
	handler Handler
	base    context.Context // what handlers' contexts hold for values

	mu       sync.Mutex
	state    state
	err      error // why the link ended; set once
	polite   bool  // the end may be told
	breach   bool  // the end is a breach of the protocol by the peer
	leaving  *envelope.Error
	departed *envelope.Error // the peer's goaway

	calls    map[uint32]*call // open calls that have a number
	ready    queue            // calls with something to write
	control  []byte           // encoded frames that go first
	owing    []*call          // calls that owe the peer credit
	lastOurs uint32
	lastIn   uint32
	asked    int // our open calls, numbered or not
	served   int // inbound calls that are open or whose handler runs
	buffered int // bytes announced and not taken
	spent    bool

	timer   *time.Timer
	timerAt time.Time // zero: not armed
	slim    bool      // the write buffer is to be as small as the last beat needed it
	widest  int       // the longest Write since
	writing time.Time // when the Write in progress must have ended; zero: none
	pings   map[uint64]*probe
	pingSeq uint64
	beat    *probe // the keeper's own unanswered ping
	beatAt  time.Time
	stats   Stats
}

// limits are what the peer's hello allows us.
type limits struct{ message, calls, window int }

type state uint8

const (
	fresh state = iota
	running
	ended
)

func newLink(o *opening) *Link {
	l := &Link{
		conn: o.conn, in: o.in, cfg: o.cfg, peer: o.asPeer(),
		limits:  limits{message: o.peer.MaxMessage, calls: min(o.peer.MaxCalls, maxPeerCalls), window: o.peer.Window},
		wake:    make(chan struct{}, 1),
		dying:   make(chan struct{}),
		severed: make(chan struct{}),
		done:    make(chan struct{}),
		parting: make(chan struct{}),
		calls:   make(map[uint32]*call),
		pings:   make(map[uint64]*probe),
		timer:   time.NewTimer(o.cfg.PingInterval),
	}
	if o.dialer {
		l.parity = 1
	}
	return l
}

// Peer is who is at the other end.
func (l *Link) Peer() Peer { return l.peer }

// Done is closed when the link has ended and nothing of it runs any more.
func (l *Link) Done() <-chan struct{} { return l.done }

// Parting is closed when the peer has said that it takes no new calls.
func (l *Link) Parting() <-chan struct{} { return l.parting }

// Err is why the link ended, nil while it has not.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Run serves the link until ctx ends, Close, or the stream breaks, and returns why: an *envelope.Error or ctx's cause. It calls h in a
// goroutine for each inbound call, at most MaxCalls at once. When it returns, all goroutines have ended and conn is closed; it
// therefore waits for handlers, whose contexts it cancels. A link runs once.
func (l *Link) Run(ctx context.Context, h Handler) error {
	if err := l.start(ctx, h); err != nil {
		return err
	}
	reading, writing := make(chan struct{}), make(chan struct{})
	l.tasks.Add(2)
	go func() { defer l.tasks.Done(); defer close(reading); l.read() }()
	go func() { defer l.tasks.Done(); defer close(writing); l.write() }()
	l.keep(ctx)
	l.partAfter(writing, reading)
	l.tasks.Wait()
	l.mu.Lock()
	l.timer.Stop()
	l.state = ended
	l.mu.Unlock()
	close(l.done)
	return l.Err()
}

func (l *Link) start(ctx context.Context, h Handler) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.state != fresh {
		return envelope.Errorf(envelope.Internal, envelope.StepLink, "Run was called twice on the link to %s", l.peer.ID)
	}
	l.state, l.handler, l.base = running, h, context.WithoutCancel(ctx)
	l.beatAt = time.Now().Add(l.cfg.PingInterval)
	l.arm(l.beatAt)
	return nil
}

// partAfter closes the stream once the writer has nothing left that it can write, or at once if the stream is broken.
func (l *Link) partAfter(writing, reading <-chan struct{}) {
	l.mu.Lock()
	polite, breach := l.polite, l.breach
	l.mu.Unlock()
	if polite {
		l.nudge()
		waitFor(writing, goodbyeTime)
	}
	// Bytes of the peer that nobody has read would make the system drop what we wrote: a breach is told, then listened out.
	if breach {
		waitFor(reading, lingerTime)
	}
	l.conn.Close()
	close(l.severed)
	l.nudge()
}

func waitFor(done <-chan struct{}, atMost time.Duration) {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// GoAway tells the peer to start no more calls, and why; running calls go on, and so do ours.
func (l *Link) GoAway(e *envelope.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.leaving = l.orClosing(e)
	l.tell(goaway, 0, l.leaving)
}

// Close ends the link: running calls fail, the peer is told e if it reads, and conn is closed. It returns when conn is closed, which
// a silent peer delays by at most a quarter of a second, and does not wait for handlers: Done and Run do.
func (l *Link) Close(e *envelope.Error) {
	e = l.orClosing(e)
	l.mu.Lock()
	idle := l.state == fresh && l.err == nil
	l.fail(e, true)
	if idle {
		l.state = ended
	}
	l.mu.Unlock()
	if idle {
		farewell(l.conn, l.control)
		close(l.severed)
		close(l.done)
	}
	<-l.severed
}

func (l *Link) orClosing(e *envelope.Error) *envelope.Error {
	if e != nil {
		return e
	}
	return envelope.Errorf(envelope.Unreachable, envelope.StepLink, "%s closes the link", l.cfg.ID)
}

// fail ends the link for the first time it is called. polite: the stream is whole and the peer may be told. The caller holds mu.
func (l *Link) fail(err error, polite bool) {
	if l.err != nil {
		return
	}
	l.err, l.polite = err, polite
	if polite {
		l.control = appendFrame(l.control, goaway, 0, 0, encodeError(envelope.AsError(err)))
	}
	l.loseCalls(envelope.AsError(err))
	for token, p := range l.pings {
		close(p.answered)
		delete(l.pings, token)
	}
	close(l.dying)
}

func (l *Link) failNow(err error, polite bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err, polite)
}

// tell queues a control frame that carries e, nil for an empty body. The caller holds mu.
func (l *Link) tell(k kind, number uint32, e *envelope.Error) {
	var body []byte
	if e != nil {
		body = encodeError(e)
	}
	l.say(k, 0, number, body)
}

// maxControl bounds what waits for a peer that makes us answer and does not read the answers.
const maxControl = 1 << 20

// say queues a control frame. The caller holds mu.
func (l *Link) say(k kind, fl flags, number uint32, body []byte) {
	if l.err != nil && !l.polite {
		return
	}
	if len(l.control) > maxControl {
		l.fail(envelope.Errorf(envelope.Overloaded, envelope.StepLink,
			"%s asks and does not read: %d bytes of answers to its frames wait", l.peer.ID, len(l.control)), false)
		return
	}
	l.control = appendFrame(l.control, k, fl, number, body)
	l.nudge()
}

// nudge wakes the writer.
func (l *Link) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
