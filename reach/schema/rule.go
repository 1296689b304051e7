package schema

import "strings"

// rule is one compiled subschema. Rules form a graph, in which a reference is an edge like any other. A rule is immutable
// once built.
type rule struct {
	place string // in the schema, as a JSON Pointer; for people
	types kindSet
	whole bool   // of the numbers, whole ones only
	want  string // the types in words
	// Per kind of value, in the order in which they are tried.
	asserts     [kinds][]assertion
	applicators [kinds][]applicator
	rest        [kinds]*rule // unevaluatedItems and unevaluatedProperties

	inPlace []*rule // what may be applied to the same value
	below   []*rule // what may be applied to its items, members and their names
	shared  bool    // one value may meet it in several ways: remember what came of it

	anchor string    // $dynamicAnchor
	home   *resource // nil in schemas without dynamic references
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
	for k := range kind(kinds) {
		if ks.has(k) {
			r.asserts[k] = append(r.asserts[k], a)
		}
	}
}

func (r *rule) applying(a applicator, ks kindSet) {
	for k := range kind(kinds) {
		if ks.has(k) {
			r.applicators[k] = append(r.applicators[k], a)
		}
	}
}

// always and never report rules that need no look at the value.
func (r *rule) always() bool { return r.types == everyKind && r.bare() }
func (r *rule) never() bool  { return r.types == 0 }

func (r *rule) bare() bool {
	for k := range kinds {
		if len(r.asserts[k])+len(r.applicators[k]) > 0 || r.rest[k] != nil {
			return false
		}
	}
	return true
}

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
