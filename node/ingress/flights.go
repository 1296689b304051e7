package ingress

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// callKey names a call as its caller does.
type callKey struct{ source, msgID string }

// flight is a call under way. Before admission nobody knows who sent it, so that one key may have several: the forged ones
// do not get far.
type flight struct {
	envelope *envelope.Envelope
	cancel   context.CancelCauseFunc
	next     *flight // with the same key
}

// flights are the calls under way, at most limit. It is safe for concurrent use.
type flights struct {
	limit int
	count atomic.Int64
	open  *xsync.Map[callKey, *flight]
}

func keyOf(m *reach.Message) callKey { return callKey{m.Header.SourceAgent, m.Header.MsgID} }

// inFlight runs a call that can be cancelled by its source.
func (s *Server) inFlight(ctx context.Context, m *reach.Message, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	own := &flight{envelope: m.Envelope, cancel: cancel}
	if err := s.flights.add(keyOf(m), own); err != nil {
		return err
	}
	defer s.flights.remove(keyOf(m), own)
	err := run(ctx)
	if errors.Is(err, envelope.Duplicate) && s.flights.differs(keyOf(m), own) {
		return envelope.Errorf(envelope.Conflict, envelope.StepSeen, "msg_id %s is in flight with other content", m.Header.MsgID).
			WithHint("a new message needs a new msg_id")
	}
	return err
}

func (f *flights) add(key callKey, own *flight) error {
	if f.count.Add(1) > int64(f.limit) {
		f.count.Add(-1)
		return envelope.Errorf(envelope.Overloaded, envelope.StepQueue, "the node has %d calls in flight, its limit", f.limit).WithRetryAfter(time.Second)
	}
	f.open.Compute(key, func(first *flight, _ bool) (*flight, xsync.ComputeOp) {
		own.next = first
		return own, xsync.UpdateOp
	})
	return nil
}

func (f *flights) remove(key callKey, own *flight) {
	f.count.Add(-1)
	f.open.Compute(key, func(first *flight, _ bool) (*flight, xsync.ComputeOp) {
		at := &first
		for *at != own {
			at = &(*at).next
		}
		*at = own.next
		if first == nil {
			return nil, xsync.DeleteOp
		}
		return first, xsync.UpdateOp
	})
}

// each visits the calls with this key, while none is added or removed.
func (f *flights) each(key callKey, visit func(*flight)) {
	f.open.Compute(key, func(first *flight, loaded bool) (*flight, xsync.ComputeOp) {
		for at := first; at != nil; at = at.next {
			visit(at)
		}
		return first, xsync.CancelOp
	})
}

// cancel gives up the calls with this key and reports whether there were any.
func (f *flights) cancel(key callKey) (found bool) {
	f.each(key, func(at *flight) {
		found = true
		at.cancel(errCancelled)
	})
	return found
}

var errCancelled = envelope.Errorf(envelope.Timeout, envelope.StepCall, "given up by its caller: it may have run")

// differs reports whether a call with own's key and other content is under way.
func (f *flights) differs(key callKey, own *flight) (differs bool) {
	f.each(key, func(at *flight) {
		differs = differs || at != own && !at.envelope.Same(own.envelope)
	})
	return differs
}
