package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// plain is s with every character that could act on a terminal or reorder its text written as an escape that is also JSON's. A line
// feed stays.
func plain(s string) string {
	if !strings.ContainsFunc(s, acts) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func acts(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// cell is s for one place of a table: one line, at most width characters.
func cell(s string, width int) string {
	s = plain(strings.Join(strings.Fields(s), " "))
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// table prints rows in aligned columns, the first row as headings.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return t.Flush()
}

// printJSON prints v on one line.
func (p *program) printJSON(v any) error {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.out, plain(string(b)))
	return err
}

// indented is JSON for people to read.
func indented(payload []byte) string {
	v := jsontext.Value(payload).Clone()
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return plain(string(payload))
	}
	return plain(string(v))
}

// short is the beginning of a node's id, enough for people.
func short(id string) string {
	if len(id) > 8 {
		id = id[:8]
	}
	return plain(id)
}

func score(x float64) string  { return fmt.Sprintf("%.2f", x) }
func factor(x float64) string { return fmt.Sprintf("%.2f", x) }

func took(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func milliseconds(ms float64) string { return took(time.Duration(ms * float64(time.Millisecond))) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
