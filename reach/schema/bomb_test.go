//go:build unix

package schema_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// soon bounds the processor time of one check or compilation on a slow machine; on most each takes less than a second.
const soon = 5 * time.Second

// With -large TestWorst uses payloads of the default limit instead of a sixteenth of it.
var large = flag.Bool("large", false, "check payloads of 4 MiB")

// cpu is the processor time that f takes, its garbage collection included. Unlike time on the clock it does not grow when
// the machine is busy with something else.
func cpu(f func()) time.Duration {
	start := used()
	f()
	return used() - start
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// doubling is a schema of n definitions each of which applies the next in two ways, as form says, down to leaf.
func doubling(n int, form, leaf string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&b, `"d%d":%s,`, i, strings.ReplaceAll(form, "NEXT", next))
	}
	fmt.Fprintf(&b, `"d%d":%s}}`, n, leaf)
	return b.String()
}

// TestBombs: small schemas that multiply for one value are refused at registration, and at once.
func TestBombs(t *testing.T) {
	for name, raw := range map[string]string{
		"anyOf":            doubling(22, `{"anyOf":[NEXT,NEXT]}`, `{"type":"string"}`),
		"allOf":            doubling(60, `{"allOf":[NEXT,NEXT]}`, `true`),
		"oneOf, not":       doubling(60, `{"oneOf":[{"not":NEXT},NEXT]}`, `{}`),
		"if, then, else":   doubling(60, `{"if":NEXT,"then":NEXT,"else":NEXT}`, `{"minimum":1}`),
		"dependentSchemas": doubling(60, `{"dependentSchemas":{"a":NEXT,"b":NEXT}}`, `false`),
		"below a property": `{"properties":{"a":{"items":{"$ref":"#/$defs/d0"}}},` + doubling(20, `{"anyOf":[NEXT,NEXT]}`, `{"type":"string"}`)[len(`{"$ref":"#/$defs/d0",`):],
		"tenfold":          doubling(5, `{"anyOf":[NEXT,NEXT,NEXT,NEXT,NEXT,NEXT,NEXT,NEXT,NEXT,NEXT]}`, `{"type":"string"}`),
		"dynamic":          doubling(20, `{"anyOf":[NEXT,NEXT]}`, `{"$dynamicAnchor":"x","type":"string"}`),
	} {
		var err error
		d := cpu(func() { _, err = schema.Compile([]byte(raw)) })
		if !errors.Is(err, envelope.TooLarge) || !strings.Contains(err.Error(), "the limit is 10000") {
			t.Errorf("%s: got %v", name, err)
		}
		if d > soon {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

// TestLargeSchemas: the worst that may be compiled is compiled soon.
func TestLargeSchemas(t *testing.T) {
	if raced {
		t.Skip("not run: the race detector slows everything down tenfold")
	}
	var defs, refs strings.Builder
	for i := range 1020 {
		fmt.Fprintf(&defs, `"%d":{},`, i)
		fmt.Fprintf(&refs, `{"$ref":"#/x/%d"},`, i)
	}
	ids := strings.Builder{}
	for i := range 1300 {
		fmt.Fprintf(&ids, `"%d":{"$id":"http://a/%d","not":{}},`, i, i)
	}
	for name, raw := range map[string]string{
		"many subschemas":          `{"allOf":[` + strings.Repeat("{},", 4000) + `{}]}`,
		"many checks":              `{"allOf":[` + strings.Repeat(`{"not":{}},`, 2000) + `{}]}`,
		"references to no keyword": `{"x":{` + defs.String() + `"y":{}},"allOf":[` + refs.String() + `true]}`,
		"resources":                `{"$defs":{` + ids.String() + `"x":true}}`,
		"deep":                     strings.Repeat(`{"not":`, 63) + "true" + strings.Repeat("}", 63),
		"deep and wide":            strings.Repeat(`{"not":`, 50) + `{"allOf":[` + strings.Repeat("{},", 4000) + `{}]}` + strings.Repeat("}", 50),
		"long chain":               doubling(800, `{"allOf":[NEXT]}`, "true"),
		"numbers":                  `{"allOf":[` + strings.Repeat(`{"minimum":1e-999},`, 2000) + `{}]}`,
		"all flaws":                `{"allOf":[` + strings.Repeat(`3,`, 4000) + `3]}`,
		"flaws in types":           `{"type":[` + strings.Repeat(`[[]],`, 2000) + `3]}`,
		"anchors":                  `{"$dynamicRef":"#a","$defs":{"a":{"$dynamicAnchor":"a"},` + strings.Replace(ids.String(), `"not":{}`, `"$dynamicAnchor":"a"`, -1)[:60000] + `"}}}`,
		"properties":               `{"properties":{` + defs.String() + `"x":{}}}`,
		"dynamic references":       `{"$id":"http://x/","$dynamicAnchor":"a","allOf":[` + strings.Repeat(`{"items":{"$dynamicRef":"#a"}},`, 1000) + `{}]}`,
		"all of the metaschema":    `{"allOf":[` + strings.Repeat(`{"items":{"$ref":"https://json-schema.org/draft/2020-12/schema"}},`, 900) + `{}]}`,
	} {
		var err error
		d := cpu(func() { _, err = schema.Compile([]byte(raw)) })
		t.Logf("%-26s %6d bytes %8v %.150v", name, len(raw), d.Round(time.Millisecond), err)
		if d > soon {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

func size() int {
	if *large {
		return envelope.DefaultMaxPayload
	}
	return envelope.DefaultMaxPayload / 16
}

// fill repeats item, separated by commas, between open and close up to about size.
func fill(open, item, close string) string {
	return open + strings.Repeat(item+",", (size()-len(open)-len(item)-len(close))/(len(item)+1)) + item + close
}

// nest is n levels of open and close around core.
func nest(n int, open, core, close string) string {
	return strings.Repeat(open, n) + core + strings.Repeat(close, n)
}

func numbered(format string) string {
	var b strings.Builder
	for i := 0; b.Len() < size()-100; i++ {
		fmt.Fprintf(&b, format+",", i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// trees lists all lists of lists with n brackets: the library's sums of them are equal.
func trees(n int) []string {
	forests := [][]string{{""}}
	for k := 1; k < n; k++ {
		var all []string
		for first := 1; first <= k; first++ {
			for _, a := range forests[first-1] {
				for _, b := range forests[k-first] {
					all = append(all, strings.TrimSuffix("["+a+"],"+b, ","))
				}
			}
		}
		forests = append(forests, all)
	}
	return forests[n-1]
}

type trial struct{ schema, payload string }

// heavyShapes are schemas that go through a payload in many ways.
func heavyShapes() map[string]trial {
	unions := `{"allOf":[` + strings.Repeat(`{"anyOf":[{"properties":{"x":false}},{"patternProperties":{"^y":true}}]},`, 500) + `{}],"unevaluatedProperties":{"type":"integer"}}`
	return map[string]trial{
		"many unions, wrong":     {`{"items":{"anyOf":[{"type":"string"},{"type":"object"},{"minimum":2}]}}`, fill("[", "1", "]")},
		"level doubling":         {doubling(60, `{"items":{"allOf":[NEXT,NEXT]}}`, `{"type":"string"}`), nest(60, "[", fill("", "1", "")[:size()-200]+"1", "]")},
		"recursive doubling":     {`{"items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`, nest(500, "[", fill("", "1", "")[:size()-2000]+"1", "]")},
		"recursive union, wrong": {`{"anyOf":[{"type":"string"},{"items":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}],"type":["array","string"]}`, nest(500, "[", fill("", "1", "")[:size()-2000]+"1", "]")},
		"recursive forest":       {`{"anyOf":[{"type":"string"},{"items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]},"maxItems":2000000,"type":"array"}]}`, fill("[", "[[[[[[[[[[[[1]]]]]]]]]]]]", "]")},
		"reference beside items": {`{"$ref":"#/$defs/b","items":{"$ref":"#"},"$defs":{"b":{"items":{"$ref":"#"}}},"not":{"type":"string"}}`, nest(500, "[", `"x"`, "]")},
		"expansion":              {doubling(11, `{"anyOf":[NEXT,NEXT]}`, `{"type":"string"}`), `[[]]`},
		"expansion, many":        {`{"items":{"$ref":"#/$defs/d0"},` + doubling(11, `{"anyOf":[NEXT,NEXT]}`, `{"type":"string"}`)[len(`{"$ref":"#/$defs/d0",`):], fill("[", "[[]]", "]")},
		"unevaluated":            {unions, "{" + numbered(`"k%d":1`) + "}"},
		"unevaluated, many":      {`{"items":` + unions + `}`, fill("[", `{"x":1,"y":2,"z":3}`, "]")},
		"unevaluated, nested":    {`{"unevaluatedItems":{"$ref":"#"},"anyOf":[{"contains":{"type":"string"}},{"contains":{"type":"null"}},true]}`, nest(500, "[null,", fill("", "[]", ""), "]")},
		"alternatives":           {`{"items":{"oneOf":[` + strings.Repeat(`{"properties":{"a":{"const":1}}},`, 900) + `{}]}}`, fill("[", `{"a":2}`, "]")},
		"alternatives, wrong":    {`{"items":{"oneOf":[` + strings.Repeat(`{"properties":{"a":{"const":1}}},`, 900) + `false]}}`, fill("[", `{"a":2}`, "]")},
		"nested alternatives":    {`{"type":"array","items":{"anyOf":[{"$ref":"#"},{"type":"array","items":{"$ref":"#"}},{"type":"object"}]}}`, nest(250, "[[1],", "1", "]")},
		"contains":               {`{"items":{"contains":{"type":"array","contains":{"type":"string"}}}}`, fill("[", `[[1,2,3],[4,5,6]]`, "]")},
		"deep":                   {`{"items":{"$ref":"#"},"type":"array"}`, nest(512, "[", "", "]")},
		"dynamic references":     {`{"$dynamicAnchor":"n","items":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}`, nest(500, "[", fill("", "1", "")[:size()-2000]+"1", "]")},
		"the metaschema":         {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, fill(`{"allOf":[`, `{"properties":{"a":{"type":"strng"}}}`, "]}")},
	}
}

// heavyKeywords are keywords that cost much for one value.
func heavyKeywords() map[string]trial {
	return map[string]trial{
		"many integers":             {`{"items":{"type":"integer","minimum":0}}`, fill("[", "1", "]")},
		"many wrong items":          {`{"items":{"type":"string"}}`, fill("[", "1", "]")},
		"many members":              {`{"additionalProperties":{"type":"integer"}}`, "{" + numbered(`"k%d":1`) + "}"},
		"many members, patterns":    {`{"patternProperties":{"^a*b*c*d*e*f*k[0-9]*$":{"type":"integer"},"k.*1":true,".*2$":true}}`, "{" + numbered(`"k%d":1`) + "}"},
		"property names":            {`{"propertyNames":{"pattern":"^k(0|1|2|3|4|5|6|7|8|9)*$","maxLength":9}}`, "{" + numbered(`"k%d":1`) + "}"},
		"equal sums in the library": {`{"uniqueItems":true}`, "[" + strings.Join(trees(12), ",") + "]"},
		"unique numbers":            {`{"uniqueItems":true}`, "[" + numbered("%d") + "]"},
		"unique on every level":     {`{"uniqueItems":true,"items":{"$ref":"#"}}`, nest(500, "[", numbered(`%d`)[:size()-1100]+"1", "]")},
		"objects in other orders":   {`{"uniqueItems":true}`, `[{` + numbered(`"k%d":1`) + `,"z":1},{"z":1,` + numbered(`"k%d":1`) + `}]`},
		"enum of objects":           {`{"items":{"enum":[` + strings.Repeat(`{"a":[1,2,3],"b":1},`, 600) + `{"a":[1,2,3],"b":2}]}}`, fill("[", `{"a":[1,2,3],"b":2.0}`, "]")},
		"enum of numbers":           {`{"items":{"enum":[` + strings.Repeat(`1.5,`, 4000) + `15.0000000000000000000001]}}`, fill("[", `1.50000000000000000000001e1`, "]")},
		"pattern":                   {`{"pattern":"^(a|b|ab|ba)*(x{1,300})*c$"}`, `"` + strings.Repeat("ab", size()/2-10) + `"`},
		"pattern with repetitions":  {`{"pattern":"(.?){1000}c"}`, `"` + strings.Repeat("ab", size()/2-10) + `"`},
		"pattern, many":             {`{"items":{"pattern":"(.?){100}(a|b)*c"}}`, fill("[", `"aaaaaaaabbbbbbbb"`, "]")},
		"required":                  {`{"items":{"required":["` + strings.Join(trees(9), `","`) + `"]}}`, fill("[", "{}", "]")},
		"required, large":           {`{"required":["k1","k2","k3"],"minProperties":1}`, "{" + numbered(`"k%d":1`) + "}"},
		"lengths":                   {`{"allOf":[` + strings.Repeat(`{"minLength":1},`, 2000) + `{}]}`, `"` + strings.Repeat("ä", size()/2-10) + `"`},
		"long numbers":              {`{"items":{"multipleOf":3` + strings.Repeat("7", 990) + `e-9}}`, fill("[", "1"+strings.Repeat("2", 900)+"e900", "]")},
		"numbers with exponents":    {`{"items":{"multipleOf":1e-999,"maximum":1e999,"type":"integer"}}`, fill("[", "1e999", "]")},
		"format regex":              {`{"items":{"format":"regex"}}`, fill("[", `"(a*)+"`, "]")},
		"format regex, long":        {`{"items":{"format":"regex"}}`, fill("[", `"`+strings.Repeat("(a|b)", 800)+`"`, "]")},
		"formats":                   {`{"items":{"anyOf":[{"format":"date-time"},{"format":"uri"},{"format":"email"},{"format":"uuid"}]}}`, fill("[", `"::not a form at all"`, "]")},
		"format, long":              {`{"format":"json-pointer"}`, `"` + strings.Repeat("/", size()-10) + `"`},
		"const objects":             {`{"const":{"a":1}}`, "{" + numbered(`"k%d":1`) + "}"},
		"escapes":                   {`{"items":{"maxLength":3}}`, fill("[", `"\u00e4\n"`, "]")},
	}
}

// TestWorst: no payload takes long to check, whatever the schema.
func TestWorst(t *testing.T) {
	if raced {
		t.Skip("not run: the race detector slows everything down tenfold")
	}
	tests := heavyShapes()
	maps.Copy(tests, heavyKeywords())
	for name, test := range tests {
		s := compile(t, test.schema)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var err error
		d := cpu(func() { err = s.Check([]byte(test.payload)) })
		runtime.ReadMemStats(&after)
		t.Logf("%-26s %7d bytes %8v %5d MB %.150v", name, len(test.payload), d.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, err)
		if d > soon {
			t.Errorf("%s: took %v", name, d)
		}
		if err != nil && !errors.Is(err, envelope.SchemaError) && !errors.Is(err, envelope.TooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
