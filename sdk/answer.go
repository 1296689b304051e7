package sdk

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

// reply passes sealed parts of one answer on; last says that no more follow.
type reply func(part *envelope.Envelope, last bool) error

// serve answers one call that came over the link.
func (s *session) serve(ctx context.Context, in *link.Inbound) error {
	return s.agent.answer(ctx, in.Envelope, in.Hop.Deadline, func(part *envelope.Envelope, last bool) error {
		if last {
			return in.SendLast(ctx, part)
		}
		return in.Send(ctx, part)
	})
}

// answer runs the handler that e asks for. A handler's error is an answer; the error returned means that e was not run, or that the caller is gone.
func (a *Agent) answer(ctx context.Context, e *envelope.Envelope, deadline time.Time, out reply) error {
	o, err := a.find(&e.Header)
	if err != nil {
		return err
	}
	if err := a.takeSlot(&e.Header); err != nil {
		return err
	}
	release := sync.OnceFunc(a.slots.give)
	defer release()
	ctx, cancel := handlerContext(ctx, &e.Header, deadline)
	defer cancel()
	r := &responder{agent: a, request: &e.Header, out: out, release: release}
	return r.finish(r.run(ctx, o, &Request{Header: e.Header, Payload: e.Payload}))
}

// takeSlot refuses at the limit. Where this agent itself is among those who wait for the answer, no waiting would help: that is a Loop.
func (a *Agent) takeSlot(h *envelope.Header) error {
	err := a.slots.take()
	if err != nil && envelope.AsError(err).Code == envelope.Overloaded && slices.Contains(h.Chain, a.id) {
		return envelope.Errorf(envelope.Loop, envelope.StepDeliver, "%s is at its limit, waiting among others for this very call (chain %v)", a.id, h.Chain)
	}
	return err
}

// responder makes the response envelopes of one answer.
type responder struct {
	agent   *Agent
	request *envelope.Header
	out     reply
	// release gives the place back before the last part leaves: with that part the node counts the place as free, and may send the next request.
	release func()
	parts   int
	whole   bool // the last part is out
	broken  error
}

// run calls the handler and catches its panic.
func (r *responder) run(ctx context.Context, o *offer, req *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.agent.cfg.log.Error("handler panicked", "capability", o.Name, "msg_id", req.Header.MsgID, "trace_id", req.Header.TraceID,
				"err", p, "reason", string(debug.Stack()))
			err = &AgentError{Text: "the handler of " + o.Name + " panicked"}
		}
	}()
	if o.stream != nil {
		return o.stream(ctx, req, func(part any) error { return r.send(part, false) })
	}
	result, err := o.plain(ctx, req)
	if err != nil {
		return err
	}
	return r.send(result, true)
}

func (r *responder) send(part any, last bool) error {
	payload, err := encode(part)
	if err != nil {
		return err
	}
	return r.emit(envelope.Header{Status: envelope.StatusOK}, payload, last)
}

// finish ends the answer: with the handler's error, or with an empty part if there was none.
func (r *responder) finish(err error) error {
	switch {
	case r.broken != nil:
		return r.broken
	case err != nil && !r.whole:
		return r.emit(envelope.Header{Status: envelope.StatusError, Error: errorObject(err)}, nil, true)
	case r.parts == 0:
		return r.emit(envelope.Header{Status: envelope.StatusOK}, nil, true)
	}
	return nil
}

func (r *responder) emit(h envelope.Header, payload []byte, last bool) error {
	h.MsgType, h.InReplyTo, h.TraceID = envelope.Response, r.request.MsgID, r.request.TraceID
	h.Traceparent, h.ConversationID = r.request.Traceparent, r.request.ConversationID
	h.TargetAgent, h.TargetCapability = r.request.SourceAgent, r.request.TargetCapability
	e, err := r.agent.sealed(h, payload)
	if err != nil {
		return err
	}
	if last {
		r.release()
	}
	if err := r.out(e, last); err != nil {
		r.broken = err
		return err
	}
	r.parts++
	r.whole = last
	return nil
}
