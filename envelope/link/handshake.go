package link

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	dialDomain   = "agent-reach/3.0 link dial"
	acceptDomain = "agent-reach/3.0 link accept"

	nonceLen     = 32
	maxHandshake = 4 << 10 // bytes of a hello or proof
	minWindow    = 1 << 10
	maxWindow    = 1 << 30
	readBuffer   = 8 << 10
)

// greeting is the body of a hello.
type greeting struct {
	Version    string             `json:"version"`
	Role       Role               `json:"role"`
	ID         string             `json:"id"`
	Key        envelope.PublicKey `json:"key"`
	Nonce      []byte             `json:"nonce"`
	MaxMessage int                `json:"max_message"`
	MaxCalls   int                `json:"max_calls"`
	Window     int                `json:"window"`
	Time       envelope.Timestamp `json:"time"`
}

type signature struct {
	Sig []byte `json:"sig"`
}

// Dial makes a link over conn as the side that connected. It closes conn if it fails.
//
// Errors: what the peer's goaway said; Malformed, Unsupported, BadSeal for what the peer sent; what Authorize returned;
// Unreachable if the stream broke or ctx ended.
func Dial(ctx context.Context, conn io.ReadWriteCloser, cfg Config) (*Link, error) {
	return handshake(ctx, conn, cfg, (*opening).dial)
}

// Accept makes a link over conn as the side that was connected to. It closes conn if it fails. Errors: as Dial.
func Accept(ctx context.Context, conn io.ReadWriteCloser, cfg Config) (*Link, error) {
	return handshake(ctx, conn, cfg, (*opening).accept)
}

// opening is a link while its handshake is made.
type opening struct {
	dialer bool
	conn   io.ReadWriteCloser
	in     *bufio.Reader
	cfg    Config
	nonce  [nonceLen]byte
	own    []byte // our hello's body
	theirs []byte // the peer's
	peer   greeting
	offset time.Duration
}

func newOpening(conn io.ReadWriteCloser, cfg Config) *opening {
	o := &opening{conn: conn, in: bufio.NewReaderSize(conn, readBuffer), cfg: cfg.withDefaults()}
	rand.Read(o.nonce[:])
	return o
}

// handshake bounds play by ctx and StallTimeout, whichever ends first: a stream without deadlines is closed to end it.
func handshake(ctx context.Context, conn io.ReadWriteCloser, cfg Config, play func(*opening) error) (*Link, error) {
	if cfg.Key.IsZero() {
		conn.Close()
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepLink, "Config.Key is not set")
	}
	o := newOpening(conn, cfg)
	ctx, done := context.WithTimeout(ctx, o.cfg.StallTimeout)
	defer done()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err := play(o)
	if inTime := stop(); !inTime {
		err = envelope.Errorf(envelope.Unreachable, envelope.StepLink, "handshake given up: %v", context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, envelope.AsError(err)
	}
	return newLink(o), nil
}

func (o *opening) dial() error {
	o.dialer = true
	if err := o.greet(); err != nil {
		return err
	}
	if err := o.meet(); err != nil {
		return o.refuse(err)
	}
	transcript := join(o.own, o.theirs)
	if err := o.prove(dialDomain, transcript); err != nil {
		return err
	}
	if err := o.check(acceptDomain, transcript); err != nil {
		return o.refuse(err)
	}
	return o.authorize()
}

func (o *opening) accept() error {
	if err := o.meet(); err != nil {
		return o.refuse(err)
	}
	if err := o.greet(); err != nil {
		return err
	}
	transcript := join(o.theirs, o.own)
	if err := o.check(dialDomain, transcript); err != nil {
		return o.refuse(err)
	}
	if err := o.authorize(); err != nil {
		return err
	}
	return o.prove(acceptDomain, transcript)
}

// join is what both sides sign: SHA-256(dialer's hello) ‖ SHA-256(acceptor's hello).
func join(dialer, acceptor []byte) []byte {
	a, b := sha256.Sum256(dialer), sha256.Sum256(acceptor)
	return append(a[:], b[:]...)
}

func (o *opening) greet() (err error) {
	o.own, err = json.Marshal(&greeting{
		Version: envelope.Version, Role: o.cfg.Role, ID: o.cfg.ID, Key: o.cfg.Key.Public(), Nonce: o.nonce[:],
		MaxMessage: o.cfg.MaxMessage, MaxCalls: o.cfg.MaxCalls, Window: o.cfg.Window, Time: envelope.Timestamp{Time: time.Now()},
	})
	if err != nil {
		return malformed("our hello: %v", err)
	}
	return o.write(hello, o.own)
}

func (o *opening) meet() (err error) {
	if o.theirs, err = o.read(hello); err != nil {
		return err
	}
	if err := json.Unmarshal(o.theirs, &o.peer); err != nil {
		return malformed("hello cannot be read: %v", err)
	}
	o.offset = time.Until(o.peer.Time.Time)
	return o.peer.check(o.nonce[:])
}

func (g *greeting) check(own []byte) error {
	if g.Version != envelope.Version {
		return envelope.Errorf(envelope.Unsupported, envelope.StepLink, "hello: version is %q; this side speaks %q", g.Version, envelope.Version)
	}
	if err := envelope.CheckAgentID("hello: id", g.ID); err != nil {
		return err
	}
	switch {
	case g.Role != Agent && g.Role != Node:
		return malformed("hello: role is %q; it must be agent or node", g.Role)
	case g.Key.IsZero():
		return malformed("hello: key is missing")
	case len(g.Nonce) != nonceLen:
		return malformed("hello: nonce is %d bytes; it must be %d", len(g.Nonce), nonceLen)
	case string(g.Nonce) == string(own):
		return malformed("hello: nonce is the one this side sent: the hello was reflected")
	case g.MaxMessage < minEnvelope || g.MaxCalls < 1:
		return malformed("hello: max_message is %d and max_calls %d; nothing could be sent", g.MaxMessage, g.MaxCalls)
	case g.Window < minWindow || g.Window > maxWindow:
		return malformed("hello: window is %d bytes; it must be %d to %d", g.Window, minWindow, maxWindow)
	}
	return nil
}

func (o *opening) prove(domain string, transcript []byte) error {
	body, err := json.Marshal(&signature{o.cfg.Key.SignFor(domain, transcript)})
	if err != nil {
		return malformed("our proof: %v", err)
	}
	return o.write(proof, body)
}

func (o *opening) check(domain string, transcript []byte) error {
	body, err := o.read(proof)
	if err != nil {
		return err
	}
	var s signature
	if err := json.Unmarshal(body, &s); err != nil {
		return malformed("proof cannot be read: %v", err)
	}
	if !o.peer.Key.VerifyFor(domain, transcript, s.Sig) {
		return envelope.Errorf(envelope.BadSeal, envelope.StepLink, "proof does not show that %s holds the key of its hello", o.peer.ID)
	}
	return nil
}

func (o *opening) authorize() error {
	if o.cfg.Authorize == nil {
		return nil
	}
	if err := o.cfg.Authorize(o.asPeer()); err != nil {
		return o.refuse(err)
	}
	return nil
}

func (o *opening) asPeer() Peer {
	return Peer{Role: o.peer.Role, ID: o.peer.ID, Key: o.peer.Key, ClockOffset: o.offset}
}

// refuse tells the peer err, unless it was the peer who refused, or left.
func (o *opening) refuse(err error) error {
	if gone, ok := err.(*departure); ok {
		return gone.why
	}
	e := envelope.AsError(err)
	farewell(o.conn, appendFrame(nil, goaway, 0, 0, encodeError(e)))
	return e
}

// departure is the peer's own end of the handshake: there is nobody left to tell.
type departure struct{ why *envelope.Error }

func (d *departure) Error() string { return d.why.Error() }

func (o *opening) write(k kind, body []byte) error {
	if _, err := o.conn.Write(appendFrame(nil, k, 0, 0, body)); err != nil {
		return envelope.Errorf(envelope.Unreachable, envelope.StepLink, "stream broke while writing the %s: %v", k, err)
	}
	return nil
}

// read takes the next frame, which must be a want: before the handshake is over nothing else is allowed but goaway.
func (o *opening) read(want kind) ([]byte, error) {
	var head [headLen]byte
	if _, err := io.ReadFull(o.in, head[:]); err != nil {
		return nil, brokeAwaiting(want, err)
	}
	f, err := decodeHead(head[:])
	if err != nil {
		return nil, err
	}
	if f.kind != want && f.kind != goaway || f.call != 0 {
		return nil, malformed("%s on call %d in place of %s", f.kind, f.call, want)
	}
	if f.kind == want && f.size > maxHandshake {
		return nil, malformed("%s of %d bytes; the limit is %d", f.kind, f.size, maxHandshake)
	}
	body := make([]byte, f.size)
	if _, err := io.ReadFull(o.in, body); err != nil {
		return nil, brokeAwaiting(want, err)
	}
	if f.kind == goaway {
		return nil, &departure{envelope.UnmarshalError(body)}
	}
	return body, nil
}

func brokeAwaiting(want kind, err error) error {
	return &departure{envelope.Errorf(envelope.Unreachable, envelope.StepLink, "stream broke before the peer's %s: %v", want, err)}
}

// farewell writes the last words on a stream and closes it; a peer that does not read is given goodbyeTime.
func farewell(conn io.ReadWriteCloser, words []byte) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		conn.Write(words)
	}()
	hush := time.NewTimer(goodbyeTime)
	defer hush.Stop()
	select {
	case <-written:
	case <-hush.C:
	}
	conn.Close()
	<-written
}
