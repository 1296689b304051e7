package ingress

import (
	"net/http"
	"strconv"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// sealed makes a handler of one that wants the request's body as a message.
func sealed(serve func(s *Server, w http.ResponseWriter, r *http.Request, m *reach.Message) error) func(*Server, http.ResponseWriter, *http.Request) error {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		m, free, err := s.readMessage(w, r)
		if err != nil {
			s.observe(nil, err)
			return err
		}
		defer free()
		s.observe(m, nil)
		if !s.calls.enter() {
			return errLeaving
		}
		defer s.calls.leave()
		return serve(s, w, r, m)
	}
}

// readMessage decodes the body. The answer carries the message's trace id from here on.
func (s *Server) readMessage(w http.ResponseWriter, r *http.Request) (m *reach.Message, free func(), err error) {
	arrived := time.Now()
	body, free, err := s.readBody(w, r)
	if err != nil {
		return nil, nil, err
	}
	e, _, err := envelope.Decode(body, s.cfg.MaxPayload)
	if err != nil {
		free()
		return nil, nil, err
	}
	w.Header().Set(traceHeader, e.Header.TraceID)
	deadline, err := deadlineOf(r, &e.Header, arrived)
	if err != nil {
		free()
		return nil, nil, err
	}
	from := remote(r)
	return &reach.Message{Envelope: e, Deadline: deadline, HopsLeft: s.cfg.MaxHops, FromLoopback: from.IsLoopback()}, free, nil
}

// deadlineOf is when the caller stops waiting: after its ttl, or earlier if it says so.
func deadlineOf(r *http.Request, h *envelope.Header, arrived time.Time) (time.Time, error) {
	wait := h.TTL()
	if said := r.Header.Values(timeoutHeader); len(said) > 0 {
		ms, err := strconv.ParseUint(said[0], 10, 32)
		if err != nil || ms == 0 || len(said) > 1 {
			return time.Time{}, envelope.Errorf(envelope.Malformed, envelope.StepDecode, "%s is %.100q; it must be one number of milliseconds", timeoutHeader, said)
		}
		wait = min(wait, time.Duration(ms)*time.Millisecond)
	}
	return arrived.Add(wait), nil
}

// observe tells of a message's arrival, or of one that could not be read.
func (s *Server) observe(m *reach.Message, err error) {
	if s.deps.Observer != nil {
		s.deps.Observer.Observe(reach.Event{Step: envelope.StepDecode, Message: m, Err: err})
	}
}

// anyMessage is POST /v1/messages.
func (s *Server) anyMessage(w http.ResponseWriter, r *http.Request, m *reach.Message) error {
	a := s.newAnswer(w, r)
	defer a.release()
	err := s.dispatch(r.Context(), m, Via{Remote: remote(r)}, a.part)
	return a.end(err)
}

// named is a call that takes one type of message only, for the agent in the path if there is one.
func named(kind envelope.MsgType) func(*Server, http.ResponseWriter, *http.Request, *reach.Message) error {
	return func(s *Server, w http.ResponseWriter, r *http.Request, m *reach.Message) error {
		if m.Header.MsgType != kind {
			return envelope.Errorf(envelope.Malformed, envelope.StepRegister, "%s %s takes a %s, not a %s", r.Method, r.Pattern, kind, m.Header.MsgType).
				WithHint("POST /v1/messages takes every type")
		}
		if id := r.PathValue("id"); id != "" && !s.speaksFor(&m.Header, id) {
			return envelope.Errorf(envelope.Malformed, envelope.StepRegister, "the path names %.130q, but the message is from %s", id, m.Header.SourceAgent).
				WithHint("the id in the path must be the message's source_agent; where the node itself speaks for a keyless agent, its target_agent")
		}
		return s.anyMessage(w, r, m)
	}
}

// speaksFor: agents speak for themselves, and the operator, with the node's own key, for keyless ones.
func (s *Server) speaksFor(h *envelope.Header, id string) bool {
	return h.SourceAgent == id || h.SourceAgent == s.cfg.NodeID && h.TargetAgent == id
}
