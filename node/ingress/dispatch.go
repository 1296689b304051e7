package ingress

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// dispatch carries out one message, whoever brought it, and gives the parts of its answer to sink.
//
// Errors: those of reach and of the registry; Malformed for a type that nobody sends to a node.
func (s *Server) dispatch(ctx context.Context, m *reach.Message, via Via, sink reach.Sink) error {
	err := s.carryOut(ctx, m, via, sink)
	if err != nil {
		return envelope.AsError(err).WithTrace(m.Header.TraceID)
	}
	return nil
}

func (s *Server) carryOut(ctx context.Context, m *reach.Message, via Via, sink reach.Sink) error {
	if s.cfg.NoCalls && (m.Header.MsgType == envelope.Request || m.Header.MsgType == envelope.Broadcast) {
		return errNoCalls
	}
	switch m.Header.MsgType {
	case envelope.Request:
		return s.inFlight(ctx, m, func(ctx context.Context) error { return s.deps.Ingress.Reach(ctx, m, sink) })
	case envelope.Broadcast:
		return s.inFlight(ctx, m, func(ctx context.Context) error { return s.broadcast(ctx, m, sink) })
	case envelope.Cancel:
		return s.cancel(m, sink)
	case envelope.Register, envelope.Heartbeat, envelope.Unregister:
		return s.lease(ctx, m, via, sink)
	case envelope.Response:
		return envelope.Errorf(envelope.Malformed, envelope.StepDecode, "a response is not sent to a node: it goes back on the call that asked for it").
			WithHint("an agent answers the HTTP request or the link call that brought the message; to ask something, send msg_type request")
	}
	return envelope.Errorf(envelope.Malformed, envelope.StepDecode, "msg_type %q is not sent to a node", m.Header.MsgType)
}

// lease hands what an agent says of itself to the registry.
func (s *Server) lease(ctx context.Context, m *reach.Message, via Via, sink reach.Sink) error {
	registry := s.deps.Registry
	if registry == nil {
		return errNoAgents
	}
	ctx, cancel := context.WithDeadline(ctx, m.Deadline)
	defer cancel()
	var reply *envelope.Envelope
	var err error
	switch {
	case m.Header.MsgType == envelope.Heartbeat:
		reply, err = registry.Heartbeat(ctx, m, via)
	case m.Header.MsgType == envelope.Unregister:
		reply, err = registry.Unregister(ctx, m, via)
	case m.Header.SourceAgent == s.cfg.NodeID:
		reply, err = registry.Attach(ctx, m)
	default:
		reply, err = registry.Register(ctx, m, via)
	}
	if err != nil {
		return err
	}
	return sink(reply)
}

var errNoAgents = envelope.Errorf(envelope.Unsupported, envelope.StepRegister, "no agents attach to this node: its role is router").
	WithHint("attach to a node whose role is registry or router_and_registry; GET /v1/nodes tells a node's role")

var errNoCalls = envelope.Errorf(envelope.Unsupported, envelope.StepForward, "this node carries no calls: its role is registry").
	WithHint("call through a node whose role is router or router_and_registry; GET /v1/nodes tells a node's role")

type cancelled struct {
	Cancelled bool `json:"cancelled"` // false: no such call is in flight here
}

// cancel gives up a call in flight of the same source.
func (s *Server) cancel(m *reach.Message, sink reach.Sink) error {
	now := time.Now()
	if err := s.deps.Admission.Admit(m, now); err != nil {
		return err
	}
	if err := s.deps.Admission.Accept(m, now); err != nil {
		return err
	}
	found := s.flights.cancel(callKey{m.Header.SourceAgent, m.Header.InReplyTo})
	reply, err := s.reply(m, &cancelled{found})
	if err != nil {
		return err
	}
	return sink(reply)
}

// reply is the node's own answer to m.
func (s *Server) reply(m *reach.Message, payload any) (*envelope.Envelope, error) {
	b, err := json.Marshal(payload, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	return s.replyBytes(m, b)
}

func (s *Server) replyBytes(m *reach.Message, payload []byte) (*envelope.Envelope, error) {
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), TraceID: m.Header.TraceID, MsgType: envelope.Response,
		SourceAgent: s.cfg.NodeID, TargetAgent: m.Header.SourceAgent, TargetCapability: m.Header.TargetCapability,
		InReplyTo: m.Header.MsgID, Status: envelope.StatusOK, Timestamp: envelope.Timestamp{Time: time.Now().UTC()},
	}, payload)
	if err != nil {
		return nil, err
	}
	envelope.Sign(s.cfg.Key, e)
	return e, nil
}
