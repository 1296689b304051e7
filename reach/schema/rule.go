package schema

import "strings"

// rule is one compiled subschema. Rules form a graph, in which a reference is an edge like any other. A rule is immutable
// once built.
type rule struct {
	types       kindSet
	whole       bool            // of the numbers, whole ones only
	shared      bool            // one value may meet it in several ways: remember what came of it
	want        string          // the types in words
	asserts     []on[assertion] // in the order in which they are tried
	applicators []on[applicator]
	restItems   *rule     // unevaluatedItems
	restMembers *rule     // unevaluatedProperties
	anchor      string    // $dynamicAnchor
	home        *resource // nil in schemas without dynamic references
	*origin               // nil once the schema is compiled
}

// origin is what is asked of a rule while its schema is compiled.
type origin struct {
	place   string  // in the schema, as a JSON Pointer; for people
	inPlace []*rule // what may be applied to the same value
	below   []*rule // what may be applied to its items, members and their names
}

// on is a keyword, and the kinds of values that it is about.
type on[T any] struct {
	kinds kindSet
	do    T
}

// assertion is a keyword that looks at a value alone.
type assertion interface {
	holds(c *checker, v int32) bool
	// wrong says in words why it does not hold.
	wrong(c *checker, v int32) string
}

// applicator is a keyword that applies rules to a value or to what is in it. While the checker explains, it reports what is
// wrong. Unless m is nil, it marks there the items or members that it has evaluated.
type applicator interface {
	apply(c *checker, v int32, m marks) bool
}

// kindSet is a set of kinds.
type kindSet uint8

const everyKind kindSet = 1<<kinds - 1

func setOf(ks ...kind) (s kindSet) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

func (s kindSet) has(k kind) bool { return s>>k&1 == 1 }

// typeKinds are the kinds of each value of the keyword type.
func typeKinds(name string) kindSet {
	switch name {
	case "null":
		return setOf(null)
	case "boolean":
		return setOf(boolFalse, boolTrue)
	case "number", "integer":
		return setOf(number)
	case "string":
		return setOf(text)
	case "array":
		return setOf(array)
	}
	return setOf(object)
}

func (r *rule) setTypes(names []string) {
	r.types, r.want = 0, strings.Join(names, " or ")
	fractions := false
	for _, name := range names {
		r.types |= typeKinds(name)
		fractions = fractions || name == "number"
	}
	r.whole = r.types.has(number) && !fractions
}

// fits reports whether the type of v is one of r's.
func (r *rule) fits(t *tree, v int32) bool {
	k := t.values[v].kind
	return r.types.has(k) && !(r.whole && k == number && !isInteger(t.text(v)))
}

func (r *rule) assert(a assertion, ks kindSet) {
	r.asserts = append(r.asserts, on[assertion]{ks, a})
}

func (r *rule) applying(a applicator, ks kindSet) {
	r.applicators = append(r.applicators, on[applicator]{ks, a})
}

// rest is what is for the items or members that no other keyword has evaluated; nil: nothing.
func (r *rule) rest(k kind) *rule {
	switch k {
	case array:
		return r.restItems
	case object:
		return r.restMembers
	}
	return nil
}

func (r *rule) never() bool { return r.types == 0 }

// marks is a set of positions of items or members; nil where nobody asks.
type marks []uint64

func (m marks) set(i int) {
	if m != nil {
		m[i/64] |= 1 << (i % 64)
	}
}

func (m marks) has(i int) bool { return m[i/64]>>(i%64)&1 == 1 }

func (m marks) add(other marks) {
	for i := range m {
		m[i] |= other[i]
	}
}

func (m marks) setAll() {
	for i := range m {
		m[i] = ^uint64(0)
	}
}
