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
			w.failed = try.failed
			return nil
		}
		failed = append(failed, failure{r.Agent, envelope.AsError(err)})
		if i+1 == len(w.pool) || !w.again(ctx, &w.pool[i+1], &try, failed.last()) {
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
	failed  bool // the agent answered with an error
	crashed bool // and did not mean to
	refused bool // the caller's side would not take a part
}

func (a *attempt) take(part *envelope.Envelope) error {
	a.parts++
	if part.Header.Status == envelope.StatusError {
		a.failed, a.crashed = true, a.crashed || crashed(&part.Header)
	}
	err := a.sink(part)
	a.refused = err != nil
	return err
}

// hand gives the message to one candidate, here or through its home node, and lets its path learn from the outcome.
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
	path := try.judge(err)
	if err == nil || envelope.AsError(err).Step != envelope.StepQueue { // what a full queue here refuses is no try
		w.tried++
		w.m.Attempts++
	}
	if path != Unjudged {
		w.in.Paths.Outcome(r.Node, r.Agent, path != Failed, latency(path, took), now)
	}
	w.in.observe(Event{
		Step: envelope.StepForward, Message: w.m, Agent: r.Agent, Node: r.Node, Reason: w.reason, Duration: took, Path: path, Err: err,
	})
	w.lapped = now
	return err
}

// judge says what a hand-over means for its path. An answer is good unless the agent crashed; of errors only those count that the caller
// cannot have caused.
func (a *attempt) judge(err error) Judgement {
	if err == nil {
		switch {
		case a.crashed:
			return Failed
		case a.failed:
			return Declined
		}
		return Worked
	}
	e := envelope.AsError(err)
	if a.refused || e.Step == envelope.StepQueue || errors.Is(err, context.Canceled) {
		return Unjudged
	}
	switch e.Code {
	case envelope.Unreachable, envelope.Timeout, envelope.Overloaded, envelope.AgentFailed, envelope.BadSeal, envelope.Internal:
		return Failed
	}
	if e.Step == envelope.StepAnswer {
		return Failed
	}
	return Unjudged
}

// latency is how long a hand-over took, for the path's mean: of one that was declined, nothing.
func latency(path Judgement, took time.Duration) time.Duration {
	if path == Declined {
		return -1
	}
	return took
}

// again reports whether next may be tried after a try that failed so. Once the request may have run, it may run again only where both who
// had it and who gets it say that this does no harm.
func (w *way) again(ctx context.Context, next *Ranked, try *attempt, last *envelope.Error) bool {
	if !w.in.Routing.Retry || w.tried > w.in.Routing.MaxRetry || try.parts > 0 || ctx.Err() != nil {
		return false
	}
	if last.Code == envelope.Timeout {
		w.ran = true
	}
	if w.ran && !(w.last.Offer.Effect.Repeatable() && next.Offer.Effect.Repeatable()) {
		return false
	}
	return last.Code.NotRun() || last.Code == envelope.Timeout
}

type failure struct {
	agent string
	err   *envelope.Error
}

type failures []failure

func (f failures) last() *envelope.Error { return f[len(f)-1].err }

// sum is the error for the caller. If any try may have run the request, so says the sum; else it is what all tries have in common.
func (f failures) sum() *envelope.Error {
	if len(f) == 1 {
		return f[0].err
	}
	chosen := f.decisive()
	texts := make([]string, len(f))
	for i, one := range f {
		texts[i] = one.agent + ": " + one.err.Text
	}
	out := *chosen
	done := "nothing was handed over"
	if !chosen.Code.NotRun() {
		done = "it may have run"
	}
	out.Text = fmt.Sprintf("%d candidates tried, %s: %s", len(f), done, strings.Join(texts, "; "))
	return &out
}

// decisive is the failure that says most: one after which the request may have run; else one that is no refusal; else the refusal with the
// shortest wait.
func (f failures) decisive() *envelope.Error {
	worst := f.last()
	for _, one := range f {
		e := one.err
		switch {
		case !e.Code.NotRun():
			return e
		case worst.Code == envelope.Overloaded && e.Code != envelope.Overloaded:
			worst = e
		case worst.Code == envelope.Overloaded && e.RetryAfter > 0 && (worst.RetryAfter == 0 || e.RetryAfter < worst.RetryAfter):
			worst = e
		}
	}
	return worst
}
