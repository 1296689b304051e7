package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestPlainDisarmsWhatActsOnATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"合同审查助手, Übersicht":    "合同审查助手, Übersicht",
		"\x1b[31mred":          `\u001b[31mred`,
		"a\u202eb":             `a\u202eb`,
		"\u009b2J":             `\u009b2J`,
		"bell\a tab\t del\x7f": `bell\u0007 tab\u0009 del\u007f`,
		"\U000e0001":           `\udb40\udc01`,
		"one\ntwo":             "one\ntwo",
		"\xff":                 "\ufffd",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCellIsOneShortLine(t *testing.T) {
	if got := cell("a\n\tb  \x1b c", 80); got != `a b \u001b c` {
		t.Errorf("got %q", got)
	}
	if got := cell(strings.Repeat("ü", 20), 5); got != "üüüü…" {
		t.Errorf("got %q", got)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[0m\u202e\xff\U000e0001")
	f.Add(`{"a": "\u001b ü"}`)
	f.Fuzz(func(t *testing.T, s string) {
		got := plain(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, acts) {
			t.Errorf("plain(%q) = %q", s, got)
		}
		if v := jsontext.Value(s); v.IsValid() && v.Compact() == nil && !jsontext.Value(plain(string(v))).IsValid() {
			t.Errorf("plain(%q) is no JSON any more: %q", v, plain(string(v)))
		}
	})
}

func TestExitCodes(t *testing.T) {
	for code, want := range map[envelope.Code]int{
		envelope.Malformed: exitRefused, envelope.TooLarge: exitRefused, envelope.BadSeal: exitRefused, envelope.UnknownAgent: exitRefused,
		envelope.ClockSkew: exitRefused, envelope.Expired: exitRefused, envelope.Forbidden: exitRefused, envelope.SchemaError: exitRefused,
		envelope.Conflict: exitRefused, envelope.Duplicate: exitRefused, envelope.Loop: exitRefused, envelope.Unsupported: exitRefused,
		envelope.NoRoute: exitNoAnswer, envelope.Overloaded: exitNoAnswer, envelope.Unreachable: exitNoAnswer, envelope.Timeout: exitNoAnswer,
		envelope.Internal: exitNoAnswer, envelope.AgentFailed: exitAgent,
	} {
		var out, errs bytes.Buffer
		p := &program{out: &out, err: &errs}
		if got := p.report(fromNode(&envelope.Error{Code: code, Step: envelope.StepForward, Text: "x", Hint: "y", TraceID: "t"})); got != want {
			t.Errorf("%s exits with %d, want %d", code, got, want)
		}
		if want := "error: " + string(code) + " at forward: x\n  hint: y\n  trace: t\n"; errs.String() != want || out.Len() > 0 {
			t.Errorf("printed %q", errs.String())
		}
	}
	if got := (&program{out: &bytes.Buffer{}, err: &bytes.Buffer{}}).report(nil); got != exitOK {
		t.Errorf("no error exits with %d", got)
	}
}
