package reach

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// MaxBroadcast is the most agents that one broadcast goes to, and maxBroadcastBytes the most that one agent's answer may hold.
const (
	MaxBroadcast      = 1024
	maxBroadcastBytes = 4 << 20
)

// Outcome is what became of a broadcast at one agent: the parts of its answer, or an error.
type Outcome struct {
	Agent    string
	Parts    []*envelope.Envelope
	Duration time.Duration
	Err      error
}

// Broadcast asks every available agent of the capability at the same time; it takes as long as the slowest. Nothing is tried twice. The
// outcomes stand in the order of the agents' ids; there is one for each available agent, also where the caller may not call it or its
// input_schema refuses the payload.
//
// Errors: those of Reach up to choosing; TooLarge for more than MaxBroadcast agents.
func (in *Ingress) Broadcast(ctx context.Context, m *Message) ([]Outcome, error) {
	w := in.begin(m)
	var left []Outcome // available, but not asked
	err := w.lap(envelope.StepSeal, w.admit())
	if err == nil {
		left, err = w.resolveAll()
		err = w.lap(envelope.StepResolve, err)
	}
	if err == nil {
		asked := slices.Clone(w.pool)
		err = w.lap(envelope.StepCheck, w.check())
		left = append(left, w.unfit(asked)...)
	}
	if err == nil {
		err = in.Admission.Accept(m, w.began)
	}
	var out []Outcome
	if err == nil {
		w.reason = "broadcast"
		out = w.scatter(ctx)
		out = append(out, left...)
		slices.SortFunc(out, func(a, b Outcome) int { return strings.Compare(a.Agent, b.Agent) })
	}
	return out, w.finish(err)
}

// resolveAll is resolve without a bound on the pool but MaxBroadcast. Available agents that the caller may not call are among the outcomes.
func (w *way) resolveAll() (left []Outcome, err error) {
	list, err := w.candidates()
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		switch w.judge(c, envelope.Available) {
		case fits:
			w.pool = append(w.pool, Ranked{Candidate: c})
		case notPermitted:
			left = append(left, Outcome{Agent: c.Agent, Err: w.explained(c, envelope.Available)})
		}
	}
	switch {
	case len(w.pool) == 0:
		return nil, w.nobody(list)
	case len(w.pool) > MaxBroadcast:
		return nil, envelope.Errorf(envelope.TooLarge, envelope.StepResolve, "a broadcast to %d agents; the limit is %d", len(w.pool), MaxBroadcast)
	}
	return left, nil
}

// unfit are those of the asked whose input_schema refused the payload.
func (w *way) unfit(asked []Ranked) (left []Outcome) {
	for _, r := range asked {
		if !w.pooled(r.Candidate) {
			left = append(left, Outcome{Agent: r.Agent, Err: refusedBy(w.in.Schemas.Check(r.Offer.Schema, w.m.Payload), &r)})
		}
	}
	return left
}

func (w *way) scatter(ctx context.Context) []Outcome {
	ctx, cancel := context.WithDeadline(ctx, w.m.Deadline)
	defer cancel()
	out := make([]Outcome, len(w.pool))
	began := time.Now()
	var all sync.WaitGroup
	for i := range w.pool {
		all.Go(func() { out[i] = w.ask(ctx, &w.pool[i]) })
	}
	all.Wait()
	w.inAgents = time.Since(began)
	return out
}

// ask hands the message to one of many, on a way of its own.
func (w *way) ask(ctx context.Context, r *Ranked) Outcome {
	m := *w.m
	own := way{in: w.in, m: &m, began: w.began, reason: w.reason}
	out := Outcome{Agent: r.Agent}
	size := 0
	try := attempt{sink: func(part *envelope.Envelope) error {
		if size += len(part.Payload); size > maxBroadcastBytes {
			return envelope.Errorf(envelope.TooLarge, envelope.StepAnswer, "the answer of %s to a broadcast is over %d bytes", r.Agent, maxBroadcastBytes)
		}
		out.Parts = append(out.Parts, part)
		return nil
	}}
	began := time.Now()
	out.Err = own.hand(ctx, r, &try)
	out.Duration = time.Since(began)
	return out
}
