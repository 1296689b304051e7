package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach/schema"
)

func compile(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(raw))
	if err != nil {
		t.Fatalf("%.200s: %v", raw, err)
	}
	return s
}

var manyPatterns = func() (s string) {
	for i := range 60 {
		s += fmt.Sprintf(`{"pattern":"x{%d}"},`, 900+i)
	}
	return s
}()

// TestRefusals: a bad schema is refused with the place and what would be right.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ schema, text string }{
		{`{"properties":{"a":{"type":"strng"}}}`, `schema at "/properties/a/type": must be "array", "boolean", "integer", "null", "number", "object", "string" or a list of these`},
		{`{"type":["string",5]}`, `schema at "/type": must be "array"`},
		{`{"required":"a"}`, `schema at "/required": must be a list of different strings`},
		{`{"properties":[]}`, `schema at "/properties": must be an object of schemas by name`},
		{`{"properties":{"required":3}}`, `schema at "/properties/required": must be a schema: an object, true or false`},
		{`{"items":[{"type":"string"}]}`, `schema at "/items": must be a schema: an object, true or false (a list of them is prefixItems)`},
		{`{"multipleOf":0}`, `schema at "/multipleOf": must be a number above 0`},
		{`{"minLength":-1}`, `schema at "/minLength": must be a whole number, 0 or more`},
		{`{"allOf":[{"type":"strng"},{"not":3}]}`, `; at "/allOf/1/not": must be a schema: an object, true or false`},
		{`{"anyOf":[]}`, `schema at "/anyOf": must be a list of at least one schema`},
		{`{"pattern":"(?=x)"}`, `schema at "/pattern": the pattern has "(?=": patterns are RE2, without lookaround and backreferences`},
		{`{"patternProperties":{"(":true}}`, `schema at "/patternProperties": the pattern cannot be read: missing closing ): "("`},
		{`{"pattern":"(x{1000}y){1000}"}`, `invalid repeat count`},
		{`{"pattern":"` + strings.Repeat("[a-z]{900}", 12) + `"}`, `the pattern has 21613 steps with its repetitions written out; the limit is 10000`},
		{`{"allOf":[` + manyPatterns + `true]}`, `all patterns together have more than 50000 steps`},
		{`{"pattern":"` + strings.Repeat(`\\p{L}`, 100) + `"}`, `the character classes of all patterns together have more than 50000 ranges`},
		{`{"$ref":5}`, `schema at "/$ref": got number, want string`},
		{`{"properties":{"a":{"$ref":"#/$defs/x"}}}`, `schema at "/properties/a/$ref": refers to "#/$defs/x", which is not there`},
		{`{"properties":{"a":{"$ref":"#x"}}}`, `schema at "/properties/a/$ref": refers to "#x", which is not there`},
		{`{"$ref":"#/~9"}`, `schema at "/$ref": refers to "#/~9", which is not there`},
		{`{"items":{"$ref":"https://a.example/b#x"}}`, `schema at "/items/$ref": refers to "https://a.example/b", outside of it; references are never fetched`},
		{`{"$ref":"file:///etc/hostname"}`, `schema at "/$ref": refers to "file:///etc/hostname", outside`},
		{`{"$ref":"urn:x:y"}`, `schema at "/$ref": refers to "urn:x:y", outside`},
		{`{"$ref":"other.json"}`, `schema at "/$ref": refers to "schema:///other.json", outside`},
		{`{"$schema":"https://a.example/b"}`, `schema at "/$schema": the dialect "https://a.example/b" is not known here`},
		{`{"$id":"http://x/","$defs":{"a":{"$id":"http://x/"}}}`, `have the same $id "http://x/"`},
		{`{"$defs":{"a":{"$anchor":"q"},"b":{"$anchor":"q"}}}`, `have the same anchor "q"`},
		{`{"$id":"::"}`, `schema at "" has an $id that is no URI`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":{"$recursiveRef":"#"}}`, `schema at "/items": $recursiveRef is not served`},
		{`[]`, `schema has the type array; it must be an object, true or false`},
		{`{"a":1,"a":2}`, `schema is not JSON: duplicate object member name "a"`},
		{`{`, `schema is not JSON: unexpected EOF`},
		{`{"properties":{"a":{"maxLength":1e30}}}`, `schema at "/properties/a/maxLength": 1e30 is too large; the most is 9007199254740991`},
		{`{"$ref":"#"}`, `schema at "": refers to itself for the same value, without end`},
		{`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"items":{"$ref":"#/$defs/a"}}`, `refers to itself for the same value, without end`},
	} {
		_, err := schema.Compile([]byte(c.schema))
		if !errors.Is(err, envelope.Malformed) || envelope.AsError(err).Step != envelope.StepRegister || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s\n got %v\nwant %s", c.schema, err, c.text)
		}
	}
}

// TestLimits: what is too large is refused with the limit.
func TestLimits(t *testing.T) {
	for _, c := range []struct{ schema, text string }{
		{`{"title":"` + strings.Repeat("x", envelope.MaxSchema) + `"}`, "schema is 65548 bytes; the limit is 65536"},
		{`{"enum":[` + strings.Repeat("1,", 9000) + `2]}`, "schema has more than 4096 values"},
		{strings.Repeat(`{"not":`, 65) + "true" + strings.Repeat("}", 65), "schema is nested deeper than 64 levels"},
		{`{"minimum":1e99999999}`, `schema at "/minimum": number 1e99999999 has an exponent beyond ±1000`},
		{`{"const":` + strings.Repeat("1", 1001) + `}`, `schema at "/const": a number of 1001 characters; the limit is 1000`},
		{`{"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/a"},`, 1025) + `true],"$defs":{"a":true}}`, "schema has 1025 references; the limit is 1024"},
		{`{"pattern":"` + strings.Repeat("x", 5000) + `"}`, ""},
	} {
		_, err := schema.Compile([]byte(c.schema))
		if err == nil || !errors.Is(err, envelope.TooLarge) && c.text != "" || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%.40s…\n got %v\nwant %s", c.schema, err, c.text)
		}
	}
}

// TestPlaces: what does not fit is told for people, by place.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ schema, payload, places string }{
		{`{"type":"object","properties":{"qty":{"type":"integer"}},"required":["id","name"],"additionalProperties":false}`, `{"qty":"x","z":1,"a/b":[]}`,
			`: lacks "id" and "name"; /qty: got string, want integer; /z: is not allowed: the schema has nothing like it; /a~1b: is not allowed: the schema has nothing like it`},
		{`{"type":"integer"}`, `1.5`, `: got a number with a fraction, want integer`},
		{`{"type":["integer","null"]}`, `"x"`, `: got string, want null or integer`},
		{`{"minimum":5,"multipleOf":0.3}`, `4`, `: is 4; it must be at least 5; : is 4; it must be a multiple of 0.3`},
		{`{"exclusiveMinimum":5}`, `5`, `: is 5; it must be more than 5`},
		{`{"exclusiveMaximum":-0.25}`, `-0.25`, `: is -0.25; it must be less than -0.25`},
		{`{"maximum":120}`, `1e3`, `: is 1e3; it must be at most 120`},
		{`{"enum":["a",1,null,[2]]}`, `"b"`, `: must be one of "a", 1, null or [2]`},
		{`{"const":1}`, `2`, `: must be 1`},
		{`{"minLength":3,"pattern":"^a"}`, `"bb"`, `: is 2 characters long; the least is 3; : does not match the pattern ^a`},
		{`{"format":"date-time"}`, `"x"`, `: is no date-time (like 2026-11-30T12:00:00Z)`},
		{`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `[]`, `: fits none of the 2 alternatives: got array, want string or integer`},
		{`{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"integer"}}},{"properties":{"kind":{"const":"b"},"y":{"type":"string"}}}]}`, `{"kind":"a","x":"s","y":1}`, `/x: got string, want integer`},
		{`{"oneOf":[true,true]}`, `1`, `: fits alternatives 1 and 2; it must fit one only`},
		{`{"not":{}}`, `1`, `: fits what the schema excludes with not`},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, `: has the same item at 0 and 2; items must differ`},
		{`{"contains":{"type":"string"},"minItems":9}`, `[1]`, `: has 1 items; the least is 9; : has 0 items of the kind that contains asks for; the least is 1`},
		{`{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, `: the name "abc" is 3 characters long; the most is 2`},
		{`{"properties":{"o":{"propertyNames":{"pattern":"^x"}}}}`, `{"o":{"abc":1}}`, `/o: the name "abc" does not match the pattern ^x`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `: lacks "b", which "a" makes necessary`},
		{`{"unevaluatedProperties":false,"properties":{"a":true}}`, `{"a":1,"b":2}`, `/b: is not allowed: the schema has nothing like it`},
		{`{"prefixItems":[true],"items":false}`, `[1,2]`, `/1: is not allowed: the schema has nothing like it`},
		{`false`, `1`, `: nothing is allowed here`},
		{`{}`, ``, `: is not JSON: the text ends too early`},
		{`{}`, `{`, `: is not JSON: unexpected EOF after offset 1`},
		{`{}`, `1 2`, `: is not JSON: 1 bytes follow the JSON value`},
		{`{}`, "\"\xff\"", `: is not JSON: invalid UTF-8 after offset 1`},
		{`{}`, `{"a":{"b":1,"b":2}}`, `: is not JSON: duplicate object member name "b" within "/a"`},
		{`{}`, `[1e99999999]`, `/0: number 1e99999999 has an exponent beyond ±1000`},
		{`{}`, strings.Repeat("[", 513) + strings.Repeat("]", 513), `: is nested deeper than 512 levels`},
	} {
		err := compile(t, c.schema).Check([]byte(c.payload))
		if got := places(err); got != c.places || envelope.AsError(err).Step != envelope.StepCheck {
			t.Errorf("%s %.60s\n got %v\nwant %s", c.schema, c.payload, err, c.places)
		}
	}
}

// places are those of a SchemaError, on one line.
func places(err error) string {
	e := envelope.AsError(err)
	if !errors.Is(err, envelope.SchemaError) {
		return fmt.Sprint(err)
	}
	var all []string
	for _, p := range e.Places {
		all = append(all, p.Pointer+": "+p.Text)
	}
	return strings.Join(all, "; ")
}

func TestManyPlaces(t *testing.T) {
	err := compile(t, `{"items":{"type":"string"}}`).Check([]byte("[" + strings.Repeat("1,", 99) + "1]"))
	e := envelope.AsError(err)
	if !errors.Is(err, envelope.SchemaError) || len(e.Places) != 33 || e.Places[32] != (envelope.Place{Text: "and 68 more"}) {
		t.Fatal(err)
	}
	if e.Text != "the payload does not fit the schema at 100 places" {
		t.Error(e.Text)
	}
}

// TestSecrets: an error tells what was wanted, and no string that the payload holds.
func TestSecrets(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"const":"x"},"b":{"maxLength":1,"pattern":"^x","format":"uuid"},"c":{"enum":["y"]},"d":{"type":"integer"}}}`)
	err := s.Check([]byte(`{"a":"hunter2","b":"hunter2","c":"hunter2","d":"hunter2"}`))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

// TestDialects: schemas that declare an older draft keep its meaning.
func TestDialects(t *testing.T) {
	s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"type":"number"}},
		"properties":{"pair":{"items":[{"$ref":"#/definitions/n"},{"type":"string"}],"additionalItems":false}},
		"dependencies":{"a":["b"],"c":{"required":["d"]}}}`)
	for payload, want := range map[string]string{
		`{"pair":[1,"x"],"a":1,"b":2}`: "",
		`{"pair":["x","x"]}`:           `/pair/0: got string, want number`,
		`{"pair":[1,"x",3]}`:           `/pair/2: is not allowed: the schema has nothing like it`,
		`{"a":1}`:                      `: lacks "b", which "a" makes necessary`,
		`{"c":1}`:                      `: lacks "d"`,
	} {
		if err := s.Check([]byte(payload)); err == nil && want != "" || err != nil && places(err) != want {
			t.Errorf("%s: got %v, want %q", payload, err, want)
		}
	}
}

// TestNothing: a schema that is absent accepts everything, also what is no JSON; true accepts all JSON.
func TestNothing(t *testing.T) {
	for _, raw := range []string{"", "null", " null\n"} {
		s, err := schema.Compile([]byte(raw))
		if s != nil || err != nil || s.Check([]byte("{")) != nil || schema.ID([]byte(raw)) != (envelope.SchemaID{}) {
			t.Errorf("%q: %v %v", raw, s, err)
		}
	}
	if s := compile(t, "true"); s.Check([]byte(`{"a":[]}`)) != nil || s.Check(nil) == nil {
		t.Error("true must accept JSON, and only that")
	}
}
