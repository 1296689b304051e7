package schema

import (
	"math"
	"strconv"

	"github.com/agent-reach/agent-reach/envelope"
)

// maxExpansion is the most rules that may apply to one value, each counted as often as references lead to it.
const maxExpansion = 10_000

// weigh refuses rules that no validator can be trusted with. A value's rules are followed in place, that is along $ref,
// allOf, anyOf, oneOf, not, if, then, else and dependentSchemas: a way that leads back to where it began never ends, and a
// few references that each lead to the next in two ways make millions.
//
// What is applied to items and members is not multiplied here. There the payload's size bounds the work, since checker
// remembers what became of every shared rule at every value.
func weigh(root *rule) error {
	w := weigher{expansion: map[*rule]int{}, open: map[*rule]bool{}}
	w.todo = []*rule{root}
	for seen := map[*rule]bool{}; len(w.todo) > 0; {
		r := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if seen[r] {
			continue
		}
		seen[r] = true
		n, err := w.expand(r)
		if err != nil {
			return err
		}
		if n > maxExpansion {
			return w.tooMany(r, n)
		}
		w.todo = append(append(w.todo, r.inPlace...), r.below...)
	}
	return nil
}

type weigher struct {
	expansion map[*rule]int // finished
	open      map[*rule]bool
	todo      []*rule
}

// expand counts r and all rules applied in place with it.
func (w *weigher) expand(r *rule) (int, error) {
	if n, ok := w.expansion[r]; ok {
		return n, nil
	}
	if w.open[r] {
		return 0, envelope.Errorf(envelope.Malformed, envelope.StepRegister,
			"schema at %s: refers to itself for the same value, without end", quote(r.place))
	}
	w.open[r] = true
	total := 1
	for _, next := range r.inPlace {
		n, err := w.expand(next)
		if err != nil {
			return 0, err
		}
		total = min(total+n, math.MaxInt32)
	}
	delete(w.open, r)
	w.expansion[r] = total
	return total, nil
}

func (w *weigher) tooMany(r *rule, n int) error {
	about := "more than 2000000000"
	if n < math.MaxInt32 {
		about = strconv.Itoa(n)
	}
	return envelope.Errorf(envelope.TooLarge, envelope.StepRegister,
		"schema at %s: applies %s subschemas to one value, counted along its references; the limit is %d", quote(r.place), about, maxExpansion)
}
