package sdk

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

// How long one step of attaching or leaving may take on a silent node.
const (
	attachTimeout     = 10 * time.Second
	heartbeatTimeout  = 10 * time.Second
	unregisterTimeout = 2 * time.Second
	// stopTimeout is how long a handler may take to heed its cancelled context before the agent leaves without it.
	stopTimeout = time.Second
	pingEvery   = 5 * time.Second
	stallAfter  = 15 * time.Second
)

// session is one link to one node, on which the agent is registered.
type session struct {
	agent *Agent
	home  home
	link  *link.Link
	ended chan struct{} // closed when link.Run has returned
}

// attach dials node, proves who the agent is, and registers.
func (a *Agent) attach(ctx context.Context, node string) (*session, error) {
	timed, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	s, err := a.dial(timed, node)
	if err != nil {
		return nil, err
	}
	a.shift(func(l *linkState) { l.home = &s.home }) // a probe may arrive before the registration's answer
	err = s.register(timed)
	if err != nil && ctx.Err() == nil {
		s.cut()
		return nil, err
	}
	a.shift(func(l *linkState) { l.session, l.ever = s, true })
	if err != nil { // told to leave meanwhile; the node may have heard the registration, and calls may run already
		s.leave()
	}
	return s, err
}

func (a *Agent) dial(ctx context.Context, node string) (*session, error) {
	conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(node, "http")+"/v1/link", &websocket.DialOptions{
		HTTPClient: a.http, Subprotocols: []string{link.Subprotocol},
	})
	if err != nil {
		return nil, noLink(node, resp, err)
	}
	l, err := link.Dial(ctx, link.WebSocket(conn), link.Config{
		Role: link.Agent, ID: a.id, Key: a.cfg.key, Log: a.cfg.log,
		MaxMessage:   a.cfg.maxPayload + envelope.Overhead + broadcastRoom,
		MaxCalls:     a.cfg.limit + 64, // so that slots refuses first, with a better word
		PingInterval: pingEvery, StallTimeout: stallAfter,
		Authorize: func(p link.Peer) error { return isNode(node, p) },
	})
	if err != nil {
		return nil, err
	}
	p := l.Peer()
	s := &session{agent: a, link: l, home: home{node, p.ID, p.Key, p.ClockOffset}, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		l.Run(context.Background(), s.serve)
	}()
	return s, nil
}

// noLink is why there is no WebSocket: in the node's own words, if it had any.
func noLink(node string, resp *http.Response, err error) error {
	if resp != nil {
		if e := problemFrom(resp); e.Step != envelope.StepAnswer {
			return e
		}
	}
	return envelope.Errorf(envelope.Unreachable, envelope.StepLink, "node %s: %v", node, err).
		WithHint("is it running? agent-reach --config config.yaml")
}

// broadcastRoom is what the outcomes of a broadcast may take beside their payloads, in bytes.
const broadcastRoom = 256 << 10

// isNode checks that who answered at that address is the node whose id its key makes.
func isNode(address string, p link.Peer) error {
	if p.Role != link.Node || p.ID != p.Key.Fingerprint() {
		return envelope.Errorf(envelope.BadSeal, envelope.StepLink, "%s is %s %s, which is no node's id for the key %s", address, p.Role, p.ID, p.Key)
	}
	return nil
}

// registration is the answer to a register envelope.
type registration struct {
	State string  `json:"state"`
	Score float64 `json:"score"`
}

// register says what the agent offers; the node then knows just that.
func (s *session) register(ctx context.Context) error {
	select {
	case <-s.agent.renew: // what it asks for is done now
	default:
	}
	d := s.agent.descriptor()
	var said registration
	if err := s.say(ctx, envelope.Register, d, &said); err != nil {
		return err
	}
	s.agent.cfg.log.Info("agent registered", "id", s.agent.id, "capability_count", len(d.Capabilities), "node", s.home.url, "state", said.State)
	return nil
}

// say sends the node a message of its own and reads the payload of the answer into answer.
func (s *session) say(ctx context.Context, kind envelope.MsgType, payload, answer any) error {
	b, err := json.Marshal(payload)
	if err != nil {
		return envelope.Errorf(envelope.Malformed, envelope.StepRegister, "%s: %v", kind, err)
	}
	e, err := s.agent.sealed(envelope.Header{MsgType: kind, ToNode: s.home.id}, b)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	var said *envelope.Envelope
	err = s.link.Call(ctx, e, link.Hop{Deadline: deadline, Priority: 1}, func(part *envelope.Envelope) error {
		said = part
		return s.checkOwn(e, part)
	})
	switch {
	case err != nil:
		return err
	case said == nil:
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "node %s gave no answer to a %s", s.home.url, kind)
	case said.Header.Status == envelope.StatusError:
		return envelope.UnmarshalError(said.Header.Error)
	}
	if err := json.Unmarshal(said.Payload, answer); err != nil {
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "node %s: its answer to a %s cannot be read: %v", s.home.url, kind, err)
	}
	return nil
}

// checkOwn checks a part that the node itself said.
func (s *session) checkOwn(request, part *envelope.Envelope) error {
	if err := belongs(request, part, s.home.id); err != nil {
		return err
	}
	return answerFault(s.home.id, s.agent.verifier.Verify(part, s.home.key))
}
