package schema

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// escapeToken and unescapeToken are RFC 6901's.
func escapeToken(s string) string {
	if !strings.ContainsAny(s, "~/") {
		return s
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

func unescapeToken(s string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
}

// escapeFragment writes a JSON Pointer as the library's URLs have it.
func escapeFragment(p string) string {
	tokens := strings.Split(p, "/")
	for i := range tokens {
		tokens[i] = url.PathEscape(tokens[i])
	}
	return strings.Join(tokens, "/")
}

// step follows one token of a JSON Pointer; nil where it leads nowhere.
func step(v any, token string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[token]
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

func (c *checker) nameSlot() int32 { return int32(len(c.t.values) - 1) }

// pointer is the JSON Pointer of v; of a name, that of its object. Long names in it are cut.
func (c *checker) pointer(v int32) string {
	if v == c.nameSlot() {
		p := c.pointer(c.named)
		return p[:strings.LastIndexByte(p, '/')]
	}
	p, steps := c.t.pointer(v)
	c.spend(1 + steps/8 + len(p)/4)
	return p
}

// pointer walks from the root down to v and tells over how many values.
func (t *tree) pointer(v int32) (p string, steps int) {
	var b strings.Builder
	for at := int32(0); at != v; {
		child, position := at+1, 0
		for t.values[child].next <= v {
			child = t.values[child].next
			position++
		}
		steps += position + 1
		b.WriteByte('/')
		if t.values[at].kind == object {
			b.WriteString(escapeToken(cut(string(t.name(child)), 64)))
		} else {
			b.WriteString(strconv.Itoa(position))
		}
		at = child
	}
	return b.String(), steps
}
