package schema_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// maker makes up schemas and payloads over so few names and values that they often have to do with each other.
type maker struct{ *rand.Rand }

var (
	someNames   = []string{"a", "b", "ab", "c"}
	someScalars = []string{`1`, `1.0`, `2`, `-3.5`, `0`, `10e-1`, `6`, `"a"`, `"ab"`, `""`, `"2026-11-30"`, `true`, `false`, `null`}
	someTypes   = []string{"null", "boolean", "number", "integer", "string", "array", "object"}
	somePattern = []string{`^a`, `b$`, `.`, `^(a|b)*$`, `\\u0061`}
)

func pick[T any](m maker, from []T) T { return from[m.IntN(len(from))] }

func (m maker) list(n int, one func() string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = one()
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (m maker) object(n int, one func() string) string {
	var all []string
	for _, i := range m.Perm(len(someNames))[:min(n, len(someNames))] {
		all = append(all, fmt.Sprintf("%q:%s", someNames[i], one()))
	}
	return "{" + strings.Join(all, ",") + "}"
}

func (m maker) value(depth int) string {
	switch n := m.IntN(10); {
	case depth == 0 || n < 4:
		return pick(m, someScalars)
	case n < 7:
		return m.list(m.IntN(4), func() string { return m.value(depth - 1) })
	}
	return m.object(m.IntN(4), func() string { return m.value(depth - 1) })
}

// keyword makes up one keyword and its value.
func (m maker) keyword(depth int) string {
	if depth > 0 && m.IntN(2) == 0 {
		return m.applicator(depth)
	}
	return m.assertion()
}

func (m maker) applicator(depth int) string {
	sub := func() string { return m.schema(depth - 1) }
	switch m.IntN(8) {
	case 0:
		name := pick(m, []string{"properties", "properties", "dependentSchemas"})
		return fmt.Sprintf("%q:%s", name, m.object(m.IntN(4), sub))
	case 1:
		return fmt.Sprintf(`"patternProperties":{"%s":%s}`, pick(m, somePattern), sub())
	case 2, 3, 4:
		name := pick(m, []string{"anyOf", "anyOf", "oneOf", "allOf", "allOf", "prefixItems"})
		return fmt.Sprintf("%q:%s", name, m.list(1+m.IntN(3), sub))
	}
	name := pick(m, []string{"additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "items",
		"contains", "not", "if", "then", "else"})
	return fmt.Sprintf("%q:%s", name, sub())
}

func (m maker) assertion() string {
	switch m.IntN(9) {
	case 0:
		return fmt.Sprintf(`"type":%q`, pick(m, someTypes))
	case 1:
		return fmt.Sprintf(`"type":["string","array","object",%q]`, pick(m, someTypes[:4]))
	case 2:
		return `"const":` + m.value(1)
	case 3:
		return `"enum":` + m.list(1+m.IntN(4), func() string { return m.value(1) })
	case 4:
		return fmt.Sprintf("%q:%d", pick(m, []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
			"minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}), m.IntN(4))
	case 5:
		return `"multipleOf":` + pick(m, []string{"1", "0.5", "2", "3e-1", "1e3"})
	case 6:
		return pick(m, []string{`"uniqueItems":true`, `"format":"date"`, `"pattern":"` + pick(m, somePattern) + `"`})
	case 7:
		return pick(m, []string{fmt.Sprintf(`"required":[%q]`, pick(m, someNames)),
			fmt.Sprintf(`"dependentRequired":{%q:[%q]}`, pick(m, someNames), pick(m, someNames))})
	}
	return pick(m, []string{`"$ref":"#/$defs/a"`, `"$ref":"#/$defs/b"`, `"$ref":"#"`, `"$ref":"b"`, `"$dynamicRef":"#x"`, `"$ref":"#y"`})
}

func (m maker) schema(depth int) string {
	if m.IntN(8) == 0 {
		return pick(m, []string{"true", "false", "{}"})
	}
	return "{" + m.keywords(depth) + "}"
}

func (m maker) keywords(depth int) string {
	var all []string
	for range 1 + m.IntN(3) {
		k := m.keyword(depth)
		name, _, _ := strings.Cut(k, ":")
		if !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, name+":") }) {
			all = append(all, k)
		}
	}
	return strings.Join(all, ",")
}

// root makes up a schema, in one of three dialects. In draft-07 there is no const, since the library heeds it beside a $ref,
// where that draft says that it means nothing.
func (m maker) root() string {
	raw := fmt.Sprintf(`{"$dynamicAnchor":"x",%s,"$defs":{"a":{"$anchor":"y",%s},"b":{"$id":"b","$dynamicAnchor":"x",%s}}}`,
		m.keywords(3), m.keywords(2), m.keywords(2))
	switch m.IntN(6) {
	case 0:
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",` + raw[1:]
	case 1:
		return `{"$schema":"http://json-schema.org/draft-07/schema#",` + strings.NewReplacer(`"const":`, `"default":`,
			`"$ref":"#y"`, `"additionalItems":{"type":"string"}`,
			`"$ref":"b"`, `"dependencies":{"a":["b"],"b":{"minProperties":2}}`).Replace(raw[1:])
	}
	return raw
}

// FuzzAgainstLibrary compares verdicts with the library's own evaluator on schemas and payloads made from a seed.
func FuzzAgainstLibrary(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := maker{rand.New(rand.NewPCG(seed, 1))}
		raw := m.root()
		s, err := schema.Compile([]byte(raw))
		library := libraryCompile(t, raw)
		if err != nil {
			if library != nil && !strings.Contains(err.Error(), "refers to itself") {
				t.Fatalf("%s: only the library compiles this: %v", raw, err)
			}
			return
		}
		for range 20 {
			payload := m.value(3)
			ours := s.Check([]byte(payload))
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(payload))
			if err != nil {
				t.Fatal(err)
			}
			if theirs := library.Validate(v); (ours == nil) != (theirs == nil) {
				t.Fatalf("schema  %s\npayload %s\nours    %v\ntheirs  %v", raw, payload, ours, theirs)
			}
			if ours != nil && (!errors.Is(ours, envelope.SchemaError) || len(envelope.AsError(ours).Places) == 0) {
				t.Fatalf("schema  %s\npayload %s\n%v", raw, payload, ours)
			}
		}
	})
}

func libraryCompile(t *testing.T, raw string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		t.Fatal(raw, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(expr string) (jsonschema.Regexp, error) { return plainRegexp(expr) })
	if err := c.AddResource("mem:///", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///")
	if err != nil {
		return nil
	}
	return s
}

// FuzzCompile: no bytes make Compile panic or hang, and what compiles can be used.
func FuzzCompile(f *testing.F) {
	for _, raw := range []string{orderSchema, `{"$ref":"#"}`, `{"$dynamicRef":"#a","$defs":{"a":{"$id":"b","$dynamicAnchor":"a"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"dependencies":{"a":["b"]}}`, doubling(9, `{"anyOf":[NEXT,NEXT]}`, "{}"),
		`{"patternProperties":{"^\\u0061{1,9}$":false},"$id":"http://a/","$anchor":"x"}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := schema.Compile(raw)
		if err != nil {
			if !errors.Is(err, envelope.Malformed) && !errors.Is(err, envelope.TooLarge) || strings.Contains(err.Error(), "panic") {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		for _, payload := range []string{orderPayload, `[[1,2],{"a":{"a":"b"}}]`, `"x"`, `1`} {
			mustAnswer(t, s, []byte(payload))
		}
	})
}

// FuzzCheck: no payload makes Check panic or hang; what is JSON to the JSON package is JSON here.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(orderPayload))
	f.Add([]byte(`{"lines":[{"sku":1e3,"price":-0.5e-7}],"\u00e4":"\ud83d\ude00","a":null}`))
	f.Add([]byte(`[{"a":1,"a":2}]`))
	anything := compile(f, "{}")
	schemas := []*schema.Schema{compile(f, orderSchema), compile(f, `{"uniqueItems":true,"unevaluatedItems":{"type":["integer","string"]},
		"additionalProperties":{"$ref":"#"},"propertyNames":{"format":"email"},"anyOf":[{"minLength":2},{"multipleOf":0.1}]}`)}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, s := range schemas {
			mustAnswer(t, s, payload)
		}
		var v any
		if isJSON := json.Unmarshal(payload, &v) == nil; isJSON != (anything.Check(payload) == nil) && !bytes.ContainsAny(payload, "eE") && len(payload) < 500 {
			t.Fatalf("%q is JSON: %v", payload, isJSON)
		}
	})
}

func mustAnswer(t *testing.T, s *schema.Schema, payload []byte) {
	t.Helper()
	err := s.Check(payload)
	if err != nil && (!errors.Is(err, envelope.SchemaError) || strings.Contains(err.Error(), "panic")) {
		t.Fatalf("%q: %v", payload, err)
	}
}
