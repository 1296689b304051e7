package schema

import (
	"math/big"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// location is the URL under which the library knows the schema being compiled; nothing is ever read from it.
const location = "schema:///"

// builder turns the library's compiled schemas into rules, one for one.
type builder struct {
	compiler *jsonschema.Compiler
	doc      any // the schema, decoded
	rules    map[*jsonschema.Schema]*rule
	order    []built
	dynamic  []dynamicUse
}

type built struct {
	url  string
	rule *rule
}

// dynamicUse is a $dynamicRef in a rule, and its first target.
type dynamicUse struct {
	from, first *rule
}

// graph builds all rules that root leads to.
func (b *builder) graph(root *jsonschema.Schema) (*rule, error) {
	r, err := b.rule(root)
	if err != nil || len(b.dynamic) == 0 {
		return r, err
	}
	rs := &resources{b, map[string]*resource{}}
	if err := rs.settle(); err != nil {
		return nil, err
	}
	for _, use := range b.dynamic {
		for _, home := range rs.known {
			if target := home.anchors[use.first.anchor]; target != nil && target != use.first {
				use.from.inPlace = append(use.from.inPlace, target)
			}
		}
	}
	return r, nil
}

// finish weighs the rules and drops what is not needed any more.
func (b *builder) finish(root *rule) error {
	if err := weigh(root); err != nil {
		return err
	}
	for _, built := range b.order {
		built.rule.origin = nil
	}
	return nil
}

func (b *builder) rule(s *jsonschema.Schema) (*rule, error) {
	if r, ok := b.rules[s]; ok {
		r.shared = true
		return r, nil
	}
	r := &rule{types: everyKind, anchor: s.DynamicAnchor, origin: &origin{place: placeOf(s.Location)}}
	b.rules[s] = r
	b.order = append(b.order, built{s.Location, r})
	if s.Bool != nil {
		if !*s.Bool {
			r.types = 0
		}
		return r, nil
	}
	k := &keywords{b: b, s: s, r: r}
	k.all()
	return r, k.err
}

// placeOf is the JSON Pointer in a library's URL; of the metaschemas, all of it.
func placeOf(loc string) string {
	fragment, ours := strings.CutPrefix(loc, location+"#")
	if !ours {
		return loc
	}
	if p, err := url.PathUnescape(fragment); err == nil {
		return p
	}
	return fragment
}

// keywords adds a subschema's keywords to its rule. After the first error the rest means nothing.
type keywords struct {
	b   *builder
	s   *jsonschema.Schema
	r   *rule
	err error
}

func (k *keywords) all() {
	s, r := k.s, k.r
	if s.DraftVersion < 2019 && s.Ref != nil { // all beside it is ignored
		r.applying(all{k.inPlace(s.Ref)}, everyKind)
		return
	}
	if s.RecursiveRef != nil {
		k.fail("$recursiveRef is not served; $dynamicRef of 2020-12 took its place")
		return
	}
	if s.Types != nil && !s.Types.IsEmpty() {
		r.setTypes(s.Types.ToStrings())
	}
	k.values()
	k.numbers()
	k.strings()
	k.arrays()
	k.objects()
	k.references()
	k.alternatives()
}

func (k *keywords) fail(reason string) {
	if k.err == nil {
		k.err = refusal("at %s: %s", quote(k.r.place), reason)
	}
}

// inPlace is the rule of a subschema for the same value.
func (k *keywords) inPlace(s *jsonschema.Schema) *rule {
	return k.edge(s, &k.r.inPlace)
}

// below is the rule of a subschema for what is in the value; nil for nil.
func (k *keywords) below(s *jsonschema.Schema) *rule {
	return k.edge(s, &k.r.below)
}

func (k *keywords) edge(s *jsonschema.Schema, edges *[]*rule) *rule {
	if s == nil {
		return nil
	}
	r, err := k.b.rule(s)
	if err != nil && k.err == nil {
		k.err = err
	}
	*edges = append(*edges, r)
	return r
}

func (k *keywords) list(ss []*jsonschema.Schema, edge func(*jsonschema.Schema) *rule) []*rule {
	rules := make([]*rule, len(ss))
	for i, s := range ss {
		rules[i] = edge(s)
	}
	return rules
}

func (k *keywords) values() {
	if k.s.Const != nil {
		k.constant([]any{*k.s.Const})
	}
	if k.s.Enum != nil {
		k.constant(k.s.Enum.Values)
	}
}

func (k *keywords) constant(values []any) {
	a, err := newConstant(values)
	if err != nil {
		k.fail(err.Error())
		return
	}
	k.r.assert(a, everyKind)
}

func (k *keywords) numbers() {
	s, r := k.s, k.r
	for _, b := range []struct {
		limit            *big.Rat
		upper, exclusive bool
	}{
		{s.Minimum, false, false}, {s.ExclusiveMinimum, false, true},
		{s.Maximum, true, false}, {s.ExclusiveMaximum, true, true},
	} {
		if b.limit == nil {
			continue
		}
		d := toDecimal(b.limit)
		plain, isPlain := small([]byte(d.String()))
		r.assert(&bound{d, plain, isPlain, b.upper, b.exclusive}, setOf(number))
	}
	if s.MultipleOf != nil {
		r.assert(multiple{toDecimal(s.MultipleOf)}, setOf(number))
	}
}

// toDecimal is exact, for the number was written as a decimal.
func toDecimal(x *big.Rat) decimal {
	digits, _ := x.FloatPrec()
	return parseDecimal([]byte(x.FloatString(digits)))
}

func (k *keywords) strings() {
	s, r := k.s, k.r
	if s.MinLength != nil || s.MaxLength != nil {
		r.assert(length{deref(s.MinLength, 0), deref(s.MaxLength, -1)}, setOf(text))
	}
	if p, ok := s.Pattern.(*pattern); ok {
		r.assert(p, setOf(text))
	}
	if s.Format == nil {
		return
	}
	f := format{s.Format.Name, s.Format.Validate, 1}
	if f.name == "regex" {
		f.ok, f.price = isRegex, 16
	}
	r.assert(f, setOf(text))
}

func deref(n *int, absent int) int {
	if n == nil {
		return absent
	}
	return *n
}

func (k *keywords) arrays() {
	s, r := k.s, k.r
	if s.MinItems != nil || s.MaxItems != nil {
		r.assert(count{deref(s.MinItems, 0), deref(s.MaxItems, -1), "items"}, setOf(array))
	}
	if s.UniqueItems {
		r.assert(unique{}, setOf(array))
	}
	prefix, rest := s.PrefixItems, s.Items2020
	if s.DraftVersion < 2020 {
		prefix, rest = oldItems(s)
	}
	if len(prefix) > 0 || rest != nil {
		r.applying(&items{k.list(prefix, k.below), k.below(rest)}, setOf(array))
	}
	if s.Contains != nil {
		a := &contains{k.below(s.Contains), deref(s.MinContains, 1), deref(s.MaxContains, -1), s.DraftVersion >= 2020}
		r.applying(a, setOf(array))
	}
	r.restItems = k.below(s.UnevaluatedItems)
}

// oldItems is items and additionalItems, before 2020-12.
func oldItems(s *jsonschema.Schema) (prefix []*jsonschema.Schema, rest *jsonschema.Schema) {
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return nil, items
	case []*jsonschema.Schema:
		return items, additional(s.AdditionalItems)
	}
	return nil, nil
}

// additional is the library's bool, schema or nothing as a schema.
func additional(v any) *jsonschema.Schema {
	switch v := v.(type) {
	case bool:
		return &jsonschema.Schema{Bool: &v, Location: location + "#"}
	case *jsonschema.Schema:
		return v
	}
	return nil
}

func (k *keywords) objects() {
	s, r := k.s, k.r
	if s.MinProperties != nil || s.MaxProperties != nil {
		r.assert(count{deref(s.MinProperties, 0), deref(s.MaxProperties, -1), "properties"}, setOf(object))
	}
	if len(s.Required) > 0 {
		r.assert(&required{names: s.Required}, setOf(object))
	}
	for _, name := range sortedKeys(s.DependentRequired) {
		r.assert(&required{name, s.DependentRequired[name]}, setOf(object))
	}
	k.members()
	if s.PropertyNames != nil {
		r.applying(names{k.below(s.PropertyNames)}, setOf(object))
	}
	for _, name := range sortedKeys(s.DependentSchemas) {
		r.applying(dependent{name, k.inPlace(s.DependentSchemas[name])}, setOf(object))
	}
	k.dependencies()
	r.restMembers = k.below(s.UnevaluatedProperties)
}

// dependencies is the keyword that dependentRequired and dependentSchemas took the place of.
func (k *keywords) dependencies() {
	for _, name := range sortedKeys(k.s.Dependencies) {
		switch dep := k.s.Dependencies[name].(type) {
		case []string:
			k.r.assert(&required{name, dep}, setOf(object))
		case *jsonschema.Schema:
			k.r.applying(dependent{name, k.inPlace(dep)}, setOf(object))
		}
	}
}

func (k *keywords) members() {
	s := k.s
	rest := additional(s.AdditionalProperties)
	if len(s.Properties) == 0 && len(s.PatternProperties) == 0 && rest == nil {
		return
	}
	a := &members{named: make(map[string]*rule, len(s.Properties)), rest: k.below(rest)}
	for _, name := range sortedKeys(s.Properties) {
		a.named[name] = k.below(s.Properties[name])
	}
	for p, sub := range s.PatternProperties {
		a.patterns = append(a.patterns, patternRule{p.(*pattern), k.below(sub)})
	}
	slices.SortFunc(a.patterns, func(p, q patternRule) int { return strings.Compare(p.String(), q.String()) })
	k.r.applying(a, setOf(object))
}

func (k *keywords) references() {
	s, r := k.s, k.r
	if s.Ref != nil {
		r.applying(all{k.inPlace(s.Ref)}, everyKind)
	}
	if s.DynamicRef == nil {
		return
	}
	first := k.inPlace(s.DynamicRef.Ref)
	if s.DynamicRef.Anchor == "" || first == nil || first.anchor != s.DynamicRef.Anchor {
		r.applying(all{first}, everyKind)
		return
	}
	r.applying(dynamicRef{first}, everyKind)
	k.b.dynamic = append(k.b.dynamic, dynamicUse{r, first})
}

func (k *keywords) alternatives() {
	s, r := k.s, k.r
	if len(s.AllOf) > 0 {
		r.applying(all(k.list(s.AllOf, k.inPlace)), everyKind)
	}
	if len(s.AnyOf) > 0 {
		r.applying(anyOf(k.list(s.AnyOf, k.inPlace)), everyKind)
	}
	if len(s.OneOf) > 0 {
		r.applying(oneOf(k.list(s.OneOf, k.inPlace)), everyKind)
	}
	if s.Not != nil {
		r.applying(not{k.inPlace(s.Not)}, everyKind)
	}
	if s.If == nil || s.Then == nil && s.Else == nil && s.DraftVersion < 2019 {
		return
	}
	cond := conditional{test: k.inPlace(s.If)}
	if s.Then != nil {
		cond.then = k.inPlace(s.Then)
	}
	if s.Else != nil {
		cond.otherwise = k.inPlace(s.Else)
	}
	r.applying(cond, everyKind)
}
