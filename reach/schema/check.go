package schema

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// Limits of one check. A step is a rule applied to a value, or about as much other work: 10 to 50 ns.
const (
	maxSteps        = 30_000_000
	maxExplainSteps = maxSteps / 4 // to list the places after the payload was found not to fit
	maxFrames       = 20_000       // rules applied within one another
	maxDepth        = 512          // levels of the payload
	maxRemembered   = 1 << 18      // outcomes
	keptValues      = 4096         // a checker used for a larger payload is not used again
)

// checker checks one payload. It runs twice over a payload that does not fit: the first run stops at the first thing wrong
// and writes nothing, the second lists all.
type checker struct {
	root  *rule
	t     tree
	in    bytes.Buffer
	dec   jsontext.Decoder
	known map[visit]outcome
	progress
}

// progress is what is new with every payload.
type progress struct {
	left   int // steps
	frames int
	over   bool // no steps or frames left: no answer means anything any more
	deep   bool // it was the frames
	scope  *scope
	scopes int32
	hashes *hasher
	byName map[int32]map[string]int32 // members of large objects

	loud      bool
	list      int32 // which list of places is being written; 0 before there is one
	lists     int32 // how many there were
	named     int32 // the member whose name is being checked; the value after the last stands for the name
	places    []envelope.Place
	more      int // places not listed
	constants int // that differed, while loud
}

// visit is a rule applied to a value, under one sequence of resources.
type visit struct {
	r     *rule
	v     int32
	scope int32
}

// outcome is what became of a visit. If it did not fit, told is the list of places to which that was written.
type outcome struct {
	fits bool
	told int32
}

// check decodes the payload and applies the root rule.
func (c *checker) check(payload []byte) error {
	c.in = *bytes.NewBuffer(payload)
	c.dec.Reset(&c.in)
	if err := c.t.decode(&c.dec, payload, limits{depth: maxDepth}); err != nil {
		return notJSON(err)
	}
	c.t.values = append(c.t.values, value{kind: text}) // for names
	c.left = maxSteps
	if c.eval(c.root, 0, nil) && !c.over {
		return nil
	}
	if c.over {
		return c.tooMuch()
	}
	c.loud, c.list, c.lists, c.left = true, 1, 1, maxExplainSteps
	c.eval(c.root, 0, nil)
	return c.failure()
}

// reset makes the checker as new, or reports that it has grown too large to keep.
func (c *checker) reset() bool {
	if cap(c.t.values) > keptValues || cap(c.t.extra) > 16*keptValues {
		return false
	}
	c.in = bytes.Buffer{}
	c.dec.Reset(&c.in) // lets go of the payload
	c.t.src = nil
	if len(c.known) > keptValues {
		c.known = nil
	}
	clear(c.known)
	c.progress = progress{}
	return true
}

// spend takes steps off the budget.
func (c *checker) spend(steps int) bool {
	c.left -= steps
	c.over = c.over || c.left < 0
	return !c.over
}

// eval reports whether the value fits the rule. While loud, it reports every place where it does not.
func (c *checker) eval(r *rule, v int32, m marks) bool {
	if c.frames >= maxFrames {
		c.over, c.deep = true, true
	}
	if !c.spend(1) {
		return false
	}
	if r.shared && m == nil && c.t.values[v].count > 0 {
		return c.remember(r, v)
	}
	return c.run(r, v, m)
}

// remember is run, but once per rule and value. Without it, rules that refer to each other in several ways would be
// evaluated twice on one level of the payload, four times on the next, and so on.
func (c *checker) remember(r *rule, v int32) bool {
	key := visit{r: r, v: v}
	if c.scope != nil {
		key.scope = c.scope.id
	}
	if o, ok := c.known[key]; ok && (o.fits || !c.loud || o.told == c.list) {
		return o.fits
	}
	o := outcome{fits: c.run(r, v, nil)}
	if c.loud {
		o.told = c.list
	}
	if len(c.known) < maxRemembered {
		if c.known == nil {
			c.known = map[visit]outcome{}
		}
		c.known[key] = o
	}
	return o.fits
}

func (c *checker) run(r *rule, v int32, m marks) bool {
	if !r.fits(&c.t, v) {
		if c.listing() {
			c.report(v, c.wrongType(r, v))
		}
		return false
	}
	outer := c.scope
	if r.home != nil {
		c.scope = c.enter(r.home)
	}
	c.frames++
	fits := c.runKind(r, c.t.values[v].kind, v, m)
	c.frames--
	c.scope = outer
	return fits
}

func (c *checker) runKind(r *rule, k kind, v int32, m marks) bool {
	if r.rest(k) != nil {
		return c.runMarked(r, v, m)
	}
	return c.apply(r, k, v, m)
}

// apply tries the keywords for kind k.
func (c *checker) apply(r *rule, k kind, v int32, m marks) bool {
	fits := true
	for _, a := range r.asserts {
		if a.kinds.has(k) && !a.do.holds(c, v) {
			if !c.loud {
				return false
			}
			fits = false
			c.reportWrong(a.do, v)
		}
	}
	for _, a := range r.applicators {
		if a.kinds.has(k) && !a.do.apply(c, v, m) {
			if !c.loud {
				return false
			}
			fits = false
		}
	}
	return fits
}

// runMarked evaluates a rule with unevaluatedItems or unevaluatedProperties: that one is for what no other keyword has
// marked. Once it has been applied, all is marked.
func (c *checker) runMarked(r *rule, v int32, m marks) bool {
	k := c.t.values[v].kind
	rest, own := r.rest(k), c.marks(v)
	if !c.apply(r, k, v, own) {
		return false
	}
	fits, i := true, 0
	for child := v + 1; child < c.t.values[v].next && (fits || c.loud); child = c.t.values[child].next {
		if !own.has(i) && !c.evalRest(rest, child) {
			fits = false
		}
		i++
	}
	if fits {
		m.setAll()
	}
	return fits
}

// evalRest is eval for what no other keyword was for.
func (c *checker) evalRest(r *rule, child int32) bool {
	if r.never() {
		c.report(child, "is not allowed: the schema has nothing like it")
		return false
	}
	return c.eval(r, child, nil)
}

// marks makes an empty set for the items or members of v.
func (c *checker) marks(v int32) marks {
	n := int(c.t.values[v].count)/64 + 1
	c.spend(n)
	return make(marks, n)
}

// fork is an empty set like m; nil if that is.
func (c *checker) fork(m marks) marks {
	if m == nil {
		return nil
	}
	c.spend(len(m))
	return make(marks, len(m))
}

// quietly is eval without reports.
func (c *checker) quietly(r *rule, v int32, m marks) bool {
	loud := c.loud
	c.loud = false
	fits := c.eval(r, v, m)
	c.loud = loud
	return fits
}

// member finds the value under name in an object, -1 if there is none.
func (c *checker) member(obj int32, name string) int32 {
	n := int(c.t.values[obj].count)
	if n <= 16 {
		c.spend(1)
		return c.t.member(obj, name)
	}
	names, ok := c.byName[obj]
	if !ok {
		names = c.index(obj, n)
	}
	if v, ok := names[name]; ok {
		return v
	}
	return -1
}

func (c *checker) index(obj int32, n int) map[string]int32 {
	c.spend(4 * n)
	names := make(map[string]int32, n)
	for v := obj + 1; v < c.t.values[obj].next; v = c.t.values[v].next {
		names[string(c.t.name(v))] = v
	}
	if c.byName == nil {
		c.byName = map[int32]map[string]int32{}
	}
	c.byName[obj] = names
	return names
}

// length is the number of characters of a string: the bytes that begin one.
func (c *checker) length(v int32) (n int) {
	s := c.t.text(v)
	c.spend(len(s) / 32)
	for _, b := range s {
		if b&0xC0 != 0x80 {
			n++
		}
	}
	return n
}
