package ingress

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/reach"
)

const handshakeTime = 10 * time.Second // for hello and proof

// acceptLink is GET /v1/link. It lasts as long as the link.
func (s *Server) acceptLink(w http.ResponseWriter, r *http.Request) error {
	if err := s.admitLink(r); err != nil {
		return err
	}
	if err := s.links.reserve(); err != nil {
		return err
	}
	defer s.links.release()
	s.running.Add(1)
	defer s.running.Done()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{link.Subprotocol}, CompressionMode: websocket.CompressionDisabled,
		InsecureSkipVerify: true, // the origin was checked
	})
	if err != nil {
		return nil // Accept has answered
	}
	s.serveLink(r.Context(), link.WebSocket(ws), remote(r))
	return nil
}

// admitLink turns away what websocket.Accept would refuse in words of its own.
func (s *Server) admitLink(r *http.Request) error {
	if s.deps.Registry == nil {
		return errNoAgents
	}
	if s.leaving.Load() {
		return errLeaving
	}
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case !r.ProtoAtLeast(1, 1), !lists(r.Header.Values("Connection"), "upgrade"), !lists(r.Header.Values("Upgrade"), "websocket"):
		return envelope.Errorf(envelope.Malformed, envelope.StepLink, "/v1/link takes a WebSocket upgrade").
			WithHint("GET over HTTP/1.1 with Connection: Upgrade, Upgrade: websocket and Sec-WebSocket-Protocol: %s", link.Subprotocol)
	case r.Header.Get("Sec-WebSocket-Version") != "13", err != nil, len(key) != 16, len(r.Header.Values("Sec-WebSocket-Key")) != 1:
		return envelope.Errorf(envelope.Malformed, envelope.StepLink, "the WebSocket handshake is not that of RFC 6455 (version 13, a key of 16 bytes)").
			WithHint("use a WebSocket library; the SDKs open links by themselves")
	case !lists(r.Header.Values("Sec-WebSocket-Protocol"), link.Subprotocol):
		return envelope.Errorf(envelope.Unsupported, envelope.StepLink, "subprotocol is %.100q; this node speaks %s", r.Header.Values("Sec-WebSocket-Protocol"), link.Subprotocol).
			WithHint("send Sec-WebSocket-Protocol: %s; an SDK of another protocol version cannot link to this node", link.Subprotocol)
	}
	return nil
}

// lists reports whether a header that is a list of words has this one, in any case of letters.
func lists(values []string, word string) bool {
	return slices.ContainsFunc(values, func(v string) bool {
		for one := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(one), word) {
				return true
			}
		}
		return false
	})
}

// serveLink shakes hands and carries the peer's calls until the link ends. It closes conn.
func (s *Server) serveLink(ctx context.Context, conn io.ReadWriteCloser, from netip.Addr) {
	defer conn.Close()
	shaking, cancel := context.WithTimeout(ctx, handshakeTime)
	l, err := link.Accept(shaking, conn, s.linkConfig())
	cancel()
	if err != nil {
		s.deps.Log.Info("link refused", "addr", from.String(), "code", envelope.AsError(err).Code, "err", err)
		return
	}
	s.links.add(l)
	if s.leaving.Load() { // after add: whoever drains has either seen the link or set leaving before
		l.GoAway(errLeaving)
	}
	agent := l.Peer().ID
	s.deps.Log.Debug("link open", "agent", agent, "addr", from.String())
	err = l.Run(ctx, func(ctx context.Context, in *link.Inbound) error { return s.inbound(ctx, l, in, from) })
	s.links.remove(l)
	s.deps.Registry.LinkDown(agent, l, err)
	s.deps.Log.Debug("link closed", "agent", agent, "addr", from.String(), "err", err)
}

func (s *Server) linkConfig() link.Config {
	message := s.cfg.MaxPayload + envelope.Overhead
	return link.Config{
		Role: link.Node, ID: s.cfg.NodeID, Key: s.cfg.Key, Log: s.deps.Log,
		MaxMessage: message, MaxBuffered: max(64<<20, 4*message),
		Authorize: s.authorize,
	}
}

func (s *Server) authorize(p link.Peer) error {
	if p.Role != link.Agent {
		return envelope.Errorf(envelope.Unsupported, envelope.StepLink, "role is %.20q; agents link here, nodes over QUIC", p.Role)
	}
	return s.deps.Registry.Authorize(p)
}

// inbound is one call of a linked agent.
func (s *Server) inbound(ctx context.Context, l *link.Link, in *link.Inbound, from netip.Addr) error {
	if !s.calls.enter() {
		return errLeaving
	}
	defer s.calls.leave()
	h := &in.Envelope.Header
	if peer := l.Peer().ID; h.SourceAgent != peer {
		return envelope.Errorf(envelope.Forbidden, envelope.StepLink, "a message of %s came over the link of %s", h.SourceAgent, peer).
			WithHint("every agent has a link of its own").WithTrace(h.TraceID)
	}
	m := &reach.Message{
		Envelope: in.Envelope, Deadline: earlier(in.Hop.Deadline, time.Now().Add(h.TTL())),
		HopsLeft: s.cfg.MaxHops, FromLoopback: from.IsLoopback(),
	}
	s.observe(m, nil)
	return s.dispatch(ctx, m, Via{Link: l, Remote: from}, func(part *envelope.Envelope) error { return in.Send(ctx, part) })
}

// earlier is the first of two moments; a zero said is none.
func earlier(said, end time.Time) time.Time {
	if said.IsZero() || said.After(end) {
		return end
	}
	return said
}

// links are the open ones, at most limit. It is safe for concurrent use.
type links struct {
	limit int
	mu    sync.Mutex
	taken int // places, shaking hands included
	open  map[*link.Link]bool
}

// reserve takes a place, which release gives back.
func (ls *links) reserve() error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.taken >= ls.limit {
		return envelope.Errorf(envelope.Overloaded, envelope.StepLink, "the node has %d links, its limit", ls.limit).
			WithRetryAfter(10 * time.Second).WithHint("link to another node")
	}
	ls.taken++
	return nil
}

func (ls *links) release() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.taken--
}

func (ls *links) add(l *link.Link) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.open[l] = true
}

func (ls *links) remove(l *link.Link) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.open, l)
}

func (ls *links) count() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.taken
}

func (ls *links) goAway(why *envelope.Error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.open {
		l.GoAway(why)
	}
}
