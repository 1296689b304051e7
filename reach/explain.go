package reach

import (
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// MaxExplained bounds the candidates that Explain and Lookup return.
const MaxExplained = 100

// Lookup ranks those who would get the request now, best first, at most limit of them. It hands nothing over and marks nothing as seen. A payload of zero
// bytes is not checked.
//
// Errors: those of Reach up to choosing.
func (in *Ingress) Lookup(m *Message, limit int) ([]Ranked, error) {
	w := in.begin(m)
	defer w.release()
	err := w.admit()
	if err == nil {
		err = w.resolve()
	}
	if err == nil && len(m.Payload) > 0 {
		err = w.check()
	}
	if err != nil {
		return nil, envelope.AsError(err).WithTrace(m.Header.TraceID)
	}
	w.score()
	w.sort()
	return append([]Ranked(nil), w.pool[:min(limit, len(w.pool))]...), nil
}

// Explain tells who would be tried in which order, and why each other candidate is left out: the former first, at most MaxExplained in all.
//
// Errors: those of admission, and NoRoute where nobody declares the target.
func (in *Ingress) Explain(m *Message) ([]Ranked, error) {
	w := in.begin(m)
	defer w.release()
	err := w.admit()
	var list []envelope.Candidate
	if err == nil {
		list, err = w.candidates()
	}
	if err != nil {
		return nil, envelope.AsError(err).WithTrace(m.Header.TraceID)
	}
	var left []Ranked
	if w.resolve() == nil {
		w.score()
		left = w.leaveUnfit()
		if len(w.pool) > 0 {
			_ = w.choose()
		}
	}
	out := append([]Ranked(nil), w.pool...)
	out = append(out, left...)
	return append(out, w.unchosen(list, len(out), w.began)...), nil
}

// leaveUnfit takes out of the pool whoever's schema refuses the payload.
func (w *way) leaveUnfit() (left []Ranked) {
	if len(w.m.Payload) == 0 {
		return nil
	}
	kept := w.pool[:0]
	for _, r := range w.pool {
		if err := w.in.Schemas.Check(r.Offer.Schema, w.m.Payload); err != nil {
			r.LeftOut = envelope.AsError(err)
			left = append(left, r)
		} else {
			kept = append(kept, r)
		}
	}
	w.pool = kept
	return left
}

// pooled reports whether c is in the pool already: a suspect agent may be, as the last resort.
func (w *way) pooled(c envelope.Candidate) bool {
	for i := range w.pool {
		if w.pool[i].Agent == c.Agent {
			return true
		}
	}
	return false
}

func (w *way) unchosen(list []envelope.Candidate, have int, now time.Time) (out []Ranked) {
	for _, c := range list {
		if have+len(out) >= MaxExplained {
			break
		}
		e := w.explained(c, envelope.Available)
		if e == nil || w.pooled(c) {
			continue
		}
		f := w.in.Paths.Factors(c.Record, now)
		out = append(out, Ranked{Candidate: c, Factors: f, Score: w.in.Paths.weights.Score(f), LeftOut: e})
	}
	return out
}
