package reach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// forward tries the pool in order. The next candidate is tried only when the last one certainly did not run the request, or when the capability says that
// a second run does no harm and no part has reached the caller; at most MaxRetry times after the first hand-over. A candidate whose
// queue here is full costs no try.
func (w *way) forward(ctx context.Context, sink Sink) error {
	if err := w.in.Admission.Accept(w.m, w.began); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, w.m.Deadline)
	defer cancel()
	var failed failures
	for i := range w.pool {
		r := &w.pool[i]
		w.last, w.reason = r, w.why(i, r)
		try := attempt{sink: sink}
		err := w.hand(ctx, r, &try)
		if err == nil {
			return nil
		}
		failed = append(failed, failure{r.Agent, envelope.AsError(err)})
		if !w.again(ctx, r, &try, failed.last()) {
			break
		}
	}
	err := failed.sum()
	if err.Code.NotRun() {
		w.in.Admission.Forget(w.m)
	}
	return err
}

// attempt is one hand-over: it counts the parts that reached the caller.
type attempt struct {
	sink    Sink
	parts   int
	crashed bool // the agent answered that it failed without meaning to
}

func (a *attempt) take(part *envelope.Envelope) error {
	a.parts++
	a.crashed = a.crashed || crashed(&part.Header)
	return a.sink(part)
}

// hand gives the message to one candidate, here or through its home node, and counts the outcome on its path.
func (w *way) hand(ctx context.Context, r *Ranked, try *attempt) error {
	began := time.Now()
	var err error
	switch {
	case r.Node == w.in.Node:
		err = w.in.Home.Deliver(ctx, r.Agent, w.m, try.take)
	case w.in.Peers == nil:
		err = envelope.Errorf(envelope.Unreachable, envelope.StepForward, "%s is attached to node %s, to which there is no link", r.Agent, r.Node)
	default:
		err = w.in.Peers.Send(ctx, r.Node, r.Agent, w.m, try.take)
	}
	now := time.Now()
	took := now.Sub(began)
	w.inAgents += took
	w.count(r, try, err, took, now)
	w.in.observe(Event{
		Step: envelope.StepForward, Message: w.m, Agent: r.Agent, Node: r.Node, Reason: w.reason, Duration: took,
		Err: outcome(err, try, r.Agent),
	})
	w.lapped = now
	return err
}

// count lets the path learn. What only a full queue here refused says nothing of the path, and is no try.
func (w *way) count(r *Ranked, try *attempt, err error, took time.Duration, now time.Time) {
	if err != nil && envelope.AsError(err).Step == envelope.StepQueue {
		return
	}
	w.tried++
	w.m.Attempts++
	if err != nil && ownFault(err) {
		return
	}
	w.in.Paths.Outcome(r.Node, r.Agent, err == nil && !try.crashed, took, now)
}

// ownFault reports whether the caller's side ended the call: its going away is no mark against the agent.
func ownFault(err error) bool {
	return errors.Is(err, context.Canceled)
}

// outcome is what observers are told of a hand-over: an answer that says "I crashed" is a failure of the path too.
func outcome(err error, try *attempt, agent string) error {
	if err == nil && try.crashed {
		return envelope.Errorf(envelope.AgentFailed, envelope.StepAnswer, "%s failed", agent)
	}
	return err
}

func (w *way) again(ctx context.Context, r *Ranked, try *attempt, last *envelope.Error) bool {
	if !w.in.Routing.Retry || w.tried > w.in.Routing.MaxRetry || try.parts > 0 || ctx.Err() != nil {
		return false
	}
	return last.Code.NotRun() || last.Code == envelope.Timeout && r.Offer.Effect.Repeatable()
}

type failure struct {
	agent string
	err   *envelope.Error
}

type failures []failure

func (f failures) last() *envelope.Error { return f[len(f)-1].err }

// sum is the error for the caller: the last one if it may have run; else what all tries have in common.
func (f failures) sum() *envelope.Error {
	last := f.last()
	if len(f) == 1 || !last.Code.NotRun() {
		return last
	}
	worst, texts := last, make([]string, len(f))
	for i, one := range f {
		texts[i] = one.agent + ": " + one.err.Text
		if one.err.Code != envelope.Overloaded {
			worst = one.err
		}
		if one.err.RetryAfter > 0 && (worst.RetryAfter == 0 || one.err.RetryAfter < worst.RetryAfter) && worst.Code == envelope.Overloaded {
			worst = one.err
		}
	}
	out := *worst
	out.Text = fmt.Sprintf("%d candidates tried, nothing was handed over: %s", len(f), strings.Join(texts, "; "))
	return &out
}
