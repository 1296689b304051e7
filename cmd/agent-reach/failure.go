package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// The exit codes, for scripts. They are part of the program's interface.
const (
	exitOK       = 0
	exitLocal    = 1 // wrong usage, a bad file, a bad configuration
	exitNoNode   = 2 // no node was reached
	exitRefused  = 3 // the node refused the message: the sender has to change something
	exitNoAnswer = 4 // no answer: timeout, unreachable, overloaded, no_route, or one that cannot be believed
	exitAgent    = 5 // the agent answered with an error of its own
)

const exitHelp = `Exit codes:
  0  ok
  1  wrong usage, a bad file or a bad configuration
  2  no node was reached
  3  the node refused the message (malformed, bad_seal, forbidden, schema_invalid, duplicate, ...)
  4  no answer (timeout, unreachable, overloaded, no_route), or one that cannot be believed
  5  the agent answered with an error of its own`

// failure is an error with the exit code that it ends the program with.
type failure struct {
	exit  int
	coded *envelope.Error
	raw   jsontext.Value // the agent's own error object
}

// Error is the coded error's.
func (f *failure) Error() string { return f.coded.Error() }

// Unwrap finds the coded error.
func (f *failure) Unwrap() error { return f.coded }

// fromNode is a failure that the node told.
func fromNode(e *envelope.Error) error { return &failure{exit: exitOf(e), coded: e} }

func exitOf(e *envelope.Error) int {
	switch e.Code {
	case envelope.Timeout, envelope.Unreachable, envelope.Overloaded, envelope.NoRoute, envelope.Internal:
		return exitNoAnswer
	case envelope.AgentFailed:
		return exitAgent
	}
	if e.Step == envelope.StepAnswer {
		return exitNoAnswer
	}
	return exitRefused
}

// noNode is the failure to reach one.
func noNode(format string, args ...any) error {
	e := envelope.Errorf(envelope.Unreachable, envelope.StepCall, format, args...).
		WithHint("is a node running there? start one: agent-reach; or name another: --node URL")
	return &failure{exit: exitNoNode, coded: e}
}

// local is a failure before anything was sent.
func local(format string, args ...any) *envelope.Error {
	return envelope.Errorf(envelope.Malformed, "", format, args...)
}

// report prints err and returns the exit code.
func (p *program) report(err error) int {
	if err == nil {
		return exitOK
	}
	var q *quiet
	if errors.As(err, &q) {
		fmt.Fprintln(p.err, q.text)
		return q.exit
	}
	f := &failure{exit: exitLocal}
	if !errors.As(err, &f) && !errors.As(err, &f.coded) {
		f.coded = local("%v", err) // of the command line's library
	}
	if p.json {
		p.reportJSON(f)
	} else {
		printError(p.err, f.coded)
	}
	return f.exit
}

func (p *program) reportJSON(f *failure) {
	object := jsontext.Value(envelope.MarshalError(f.coded))
	out := map[string]jsontext.Value{"error": object}
	if f.raw != nil {
		out["agent_error"] = f.raw
	}
	b, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		b = fmt.Appendf(nil, `{"error":%s}`, object)
	}
	fmt.Fprintln(p.out, plain(string(b)))
}

func printError(w io.Writer, e *envelope.Error) {
	at := ""
	if e.Step != "" {
		at = " at " + string(e.Step)
	}
	fmt.Fprintf(w, "error: %s%s: %s\n", plain(string(e.Code)), plain(at), plain(e.Text))
	for _, place := range e.Places {
		fmt.Fprintf(w, "  %s: %s\n", plain(placeName(place.Pointer)), plain(place.Text))
	}
	if e.Hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", plain(e.Hint))
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(w, "  try again in %v\n", e.RetryAfter)
	}
	if e.TraceID != "" {
		fmt.Fprintf(w, "  trace: %s\n", plain(e.TraceID))
	}
}

func placeName(pointer string) string {
	if pointer == "" {
		return "payload"
	}
	return pointer
}

// quiet ends the program with an exit code after everything was shown; its text sums up for people.
type quiet struct {
	exit int
	text string
}

// Error is the sum.
func (q *quiet) Error() string { return q.text }
