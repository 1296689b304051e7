package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// quote writes a name or string so that it cannot be taken for anything else, cut to a decent length.
func quote(s string) string { return fmt.Sprintf("%q", cut(s, 64)) }

// cut shortens s to about limit bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// quoteList is "a", "b" and "c", or the first eight and how many more.
func quoteList(names []string, and string) string {
	quoted := make([]string, 0, 8)
	for _, name := range names[:min(len(names), 8)] {
		quoted = append(quoted, quote(name))
	}
	return joinList(quoted, len(names), and)
}

// joinList joins the first of all words.
func joinList(first []string, all int, and string) string {
	if more := all - len(first); more > 0 {
		return fmt.Sprintf("%s %s %d more", strings.Join(first, ", "), and, more)
	}
	if len(first) < 2 {
		return strings.Join(first, "")
	}
	last := len(first) - 1
	return strings.Join(first[:last], ", ") + " " + and + " " + first[last]
}
