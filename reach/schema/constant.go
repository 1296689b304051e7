package schema

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// constant is const and enum: one of these values.
type constant struct {
	t       tree
	singles kindSet // null, false and true
	numbers map[decimal]struct{}
	strings map[string]struct{}
	others  []int32 // arrays and objects of t
	list    string  // for people
}

// newConstant takes values as the library decodes them.
func newConstant(values []any) (*constant, error) {
	src, err := appendJSON(nil, values)
	if err != nil {
		return nil, err
	}
	a := &constant{numbers: map[decimal]struct{}{}, strings: map[string]struct{}{}}
	var d jsontext.Decoder
	d.Reset(bytes.NewBuffer(src))
	if err := a.t.decode(&d, src, limits{depth: maxDepth}); err != nil {
		return nil, err
	}
	for v := int32(1); v < a.t.values[0].next; v = a.t.values[v].next {
		a.add(v)
	}
	a.list = listJSON(values)
	return a, nil
}

func (a *constant) add(v int32) {
	switch k := a.t.values[v].kind; k {
	case number:
		a.numbers[parseDecimal(a.t.text(v))] = struct{}{}
	case text:
		a.strings[string(a.t.text(v))] = struct{}{}
	case array, object:
		a.others = append(a.others, v)
	default:
		a.singles |= setOf(k)
	}
}

// listJSON lists the first few values for people.
func listJSON(values []any) string {
	first := make([]string, 0, 12)
	for _, v := range values[:min(len(values), cap(first))] {
		b, _ := appendJSON(nil, v)
		first = append(first, cut(string(b), 64))
	}
	if len(values) == 1 {
		return first[0]
	}
	return "one of " + joinList(first, len(values), "or")
}

// appendJSON writes a value as the library decodes it.
func appendJSON(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	case json.Number:
		return append(dst, v...), nil
	case string:
		return jsontext.AppendQuote(dst, v)
	case []any:
		return appendArray(dst, v)
	case map[string]any:
		return appendObject(dst, v)
	}
	return append(dst, "null"...), nil
}

func appendArray(dst []byte, items []any) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendJSON(dst, item); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, members map[string]any) (_ []byte, err error) {
	dst = append(dst, '{')
	for i, name := range sortedKeys(members) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = jsontext.AppendQuote(dst, name); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = appendJSON(dst, members[name]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (a *constant) holds(c *checker, v int32) bool {
	switch c.t.values[v].kind {
	case number:
		c.spend(2)
		_, ok := a.numbers[parseDecimal(c.t.text(v))]
		return ok
	case text:
		s := c.t.text(v)
		c.spend(len(s) / 64)
		_, ok := a.strings[string(s)]
		return ok
	case array, object:
		return a.holdsOther(c, v)
	}
	return a.singles.has(c.t.values[v].kind)
}

// holdsOther compares each as far as both are equal, so at most all of a.
func (a *constant) holdsOther(c *checker, v int32) bool {
	c.spend(2 * len(a.t.values))
	for _, w := range a.others {
		if equal(&c.t, v, &a.t, w) {
			return true
		}
	}
	return false
}

func (a *constant) wrong(*checker, int32) string { return "must be " + a.list }
