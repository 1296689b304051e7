package schema

import (
	"fmt"
	"slices"

	"github.com/agent-reach/agent-reach/envelope"
)

// Limits of what an error says.
const (
	maxPlaces  = 32
	maxPointer = 512 // bytes of one place's pointer; a longer one is cut
)

type place = envelope.Place

// listing reports whether a place that does not fit is still to be described. If there are enough it is counted only.
func (c *checker) listing() bool {
	if !c.loud || c.over {
		return false
	}
	if len(c.places) >= maxPlaces {
		c.more++
		return false
	}
	return true
}

// report notes, while the checker is loud, that v does not fit.
func (c *checker) report(v int32, text string) {
	if !c.listing() {
		return
	}
	p := place{Pointer: c.pointer(v), Text: text}
	if v == c.nameSlot() {
		p.Text = fmt.Sprintf("the name %s %s", quote(string(c.t.name(c.named))), text)
	}
	c.take([]place{p})
}

func (c *checker) reportWrong(a assertion, v int32) {
	if _, ok := a.(*constant); ok {
		c.constants++
	}
	if c.listing() {
		c.report(v, a.wrong(c, v))
	}
}

// take adds places that are not there yet.
func (c *checker) take(places []place) {
	for _, p := range places {
		switch {
		case slices.Contains(c.places, p):
		case len(c.places) >= maxPlaces:
			c.more++
		default:
			c.places = append(c.places, p)
		}
	}
}

func (c *checker) wrongType(r *rule, v int32) string {
	if r.never() {
		return "nothing is allowed here"
	}
	got := kindNames[c.t.values[v].kind]
	if r.types.has(c.t.values[v].kind) {
		got = "a number with a fraction"
	}
	return fmt.Sprintf("got %s, want %s", got, r.want)
}

// failure is the error of a payload that does not fit.
func (c *checker) failure() error {
	n := len(c.places) + c.more
	for i := range c.places {
		c.places[i].Pointer = cut(c.places[i].Pointer, maxPointer)
	}
	switch {
	case c.over:
		c.places = append(c.places, place{Text: "and more, which would take too long to find"})
	case c.more > 0:
		c.places = append(c.places, place{Text: fmt.Sprintf("and %d more", c.more)})
	}
	e := envelope.Errorf(envelope.SchemaError, envelope.StepCheck, "the payload does not fit the schema at %d places", n)
	if n <= 1 {
		e.Text = "the payload does not fit the schema"
	}
	e.Places = c.places
	return e
}

// notJSON is the error of a payload that cannot be decoded.
func notJSON(err *syntaxError) error {
	e := envelope.Errorf(envelope.SchemaError, envelope.StepCheck, "the payload cannot be checked against the schema")
	text := err.reason
	if !err.large {
		text = "is not JSON: " + text
	}
	e.Places = []place{{Pointer: err.at, Text: text}}
	return e
}

// tooMuch is the error of a payload for which the schema takes too long.
func (c *checker) tooMuch() error {
	limit := fmt.Sprintf("more than %d steps", maxSteps)
	if c.deep {
		limit = fmt.Sprintf("more than %d subschemas within one another", maxFrames)
	}
	return envelope.Errorf(envelope.TooLarge, envelope.StepCheck,
		"checking the payload, of %d values, against the schema takes %s", len(c.t.values)-1, limit).
		WithHint("make the payload smaller, or have its agent declare a simpler schema")
}
