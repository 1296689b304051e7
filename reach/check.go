package reach

import "github.com/agent-reach/agent-reach/envelope"

// check leaves in the pool whoever's input_schema admits the payload; equal schemas are asked once. Where nobody's does, the first one's reasons
// are the error.
func (w *way) check() error {
	var asked [4]struct {
		id  envelope.SchemaID
		err error
	}
	n := 0
	verdict := func(id envelope.SchemaID) error {
		for i := range n {
			if asked[i].id == id {
				return asked[i].err
			}
		}
		err := w.in.Schemas.Check(id, w.m.Payload)
		if n < len(asked) {
			asked[n].id, asked[n].err = id, err
			n++
		}
		return err
	}
	var first error
	kept := w.pool[:0]
	for _, r := range w.pool {
		err := verdict(r.Offer.Schema)
		if err == nil {
			kept = append(kept, r)
		} else if first == nil {
			first = refusedBy(err, &r)
		}
	}
	w.pool = kept
	if len(kept) == 0 {
		return first
	}
	return nil
}

func refusedBy(err error, r *Ranked) error {
	e := *envelope.AsError(err)
	if e.Hint == "" {
		e.Hint = "the input_schema of " + r.Offer.Name + " " + r.Offer.Version + " is shown by: agent-reach agents " + r.Agent
	}
	return &e
}
