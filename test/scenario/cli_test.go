package scenario

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/sdk"
)

// cliNode is a node with an agent that answers, fails, answers in parts and holds.
func cliNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t, settings{"auth.permissions_file": "rules.yaml"})
	must(t, os.WriteFile(n.file("rules.yaml"), []byte("rules:\n  - deny: {capability: \"secret.*\"}\n  - allow: {caller: \"*\"}\n"), 0o600))
	n.start(t)
	a := newAgent(t, n, "stock-01", sdk.WithDisplayName("Stock"))
	a.Handle(sdk.Capability{
		Name: "stock.query", Version: "1.2.0", Description: "how many there are", Tags: []string{"stock"},
		InputSchema: sdk.Schema(`{"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}`),
	}, echo)
	a.Handle(offer("stock.fail"), func(context.Context, *sdk.Request) (any, error) {
		return nil, &sdk.AgentError{Code: "sold_out", Text: "none left"}
	})
	over := make(chan struct{})
	a.Handle(offer("stock.hold"), func(context.Context, *sdk.Request) (any, error) { <-over; return nil, nil })
	a.HandleStream(offer("stock.parts"), func(_ context.Context, _ *sdk.Request, send func(any) error) error {
		return errors.Join(send(1), send(2), send(3))
	})
	a.Handle(offer("secret.read"), echo)
	serve(t, a)
	t.Cleanup(func() { close(over) })
	return n
}

// TestCommandLine: each command's exit code, its JSON, and a hint with each error.
func TestCommandLine(t *testing.T) {
	n := cliNode(t)
	attach(t, n, "words-01", "text.count_words", wordServer(t, n))
	payload := `{"sku": "A"}`
	for _, tt := range []struct {
		args  string // _ is the payload
		exit  int
		lines int    // of JSON on standard output
		has   string // on standard output
	}{
		{"call stock.query _", 0, 1, `"payload":{"sku":"A"}`},
		{"call stock.query@^1.1 _ --agent stock-01 --priority 1 --trace-id t-1 --conversation c", 0, 1, `"trace_id":"t-1"`},
		{"call stock.parts", 0, 3, `"payload":3`},
		{"call stock.fail", 5, 1, `"sold_out"`},
		{"call stock.hold --timeout 200ms", 4, 1, `"timeout"`},
		{"call stock.query 7", 3, 1, `"schema_invalid"`},
		{"call secret.read", 3, 1, `"forbidden"`},
		{"call no.such", 4, 1, `"no_route"`},
		{"call stock.query {", 1, 1, `"malformed"`},
		{"call", 1, 1, `"hint"`}, {"call a b c d", 1, 1, `"hint"`}, {"call stock.query --priority x", 1, 1, `"hint"`}, {"call stock.query --timeout 0s", 1, 1, `"error"`},
		{"call stock.query _ --key nowhere.pem", 1, 1, `"hint"`}, {"call stock.query _ --id st\u043eck", 1, 1, `U+043E`},
		{"broadcast stock.query _", 0, 1, `"ok":true`}, {"broadcast stock.fail", 5, 1, `"ok":false`}, {"broadcast no.such", 4, 1, `"no_route"`},
		{"lookup stock.query", 0, 1, `"not_direct":1`}, {"lookup no.such", 4, 1, `"no_route"`}, {"lookup stock.query --limit 99", 3, 1, `"malformed"`},
		{"explain stock.query _", 0, 1, `"chosen":"stock-01"`}, {"explain stock.query 7", 0, 1, `"left_out"`},
		{"agents", 0, -1, `"stock-01"`}, {"agents stock-01", 0, 1, `"how many there are"`}, {"agents nobody", 4, 1, `"no_route"`}, {"agents --state asleep", 3, 1, `"malformed"`},
		{"agents --capability text.count_words", 0, 1, `"words-01"`},
		{"capabilities", 0, 6, `"stock.query"`},
		{"attach words-01.yaml --config config.yaml", 0, 1, `"payload"`}, {"attach nowhere.yaml --config config.yaml", 1, 1, `"hint"`}, {"attach words-01.yaml --node-key cli/agent-reach/cli_ed25519.pem", 1, 1, `"hint"`},
		{"attach words-01.yaml --remove --config config.yaml", 0, 1, `"state"`}, {"attach words-01.yaml --remove --config config.yaml", 3, 1, `"unknown_agent"`},
		{"keys new made.pem", 0, 1, `"public_key"`}, {"keys new made.pem", 1, 1, `"conflict"`}, {"keys show made.pem", 0, 1, `"fingerprint"`}, {"keys show config.yaml", 1, 1, `"hint"`},
		{"keys", 0, 0, ""}, {"config check config.yaml", 0, 1, ""}, {"config check nowhere.yaml", 1, 1, `nowhere.yaml`},
		{"version", 0, 1, `"protocol":"3.0"`}, {"vresion", 1, 1, `did you mean version`}, {"call --nod x", 1, 1, `"hint"`},
		{"agents --node http://127.0.0.1:1", 2, 1, `"unreachable"`}, {"call stock.query _ --node http://127.0.0.1:1", 2, 1, `"hint"`},
	} {
		args := strings.Fields(tt.args)
		for i := range args {
			if args[i] == "_" {
				args[i] = payload
			}
		}
		checkCommand(t, n, append(args, "--json"), tt.exit, tt.lines, tt.has)
	}
}

func checkCommand(t *testing.T, n *node, args []string, exit, lines int, has string) {
	t.Helper()
	stdout, stderr, got := n.cli(t, args...)
	what := strings.Join(args, " ")
	if got != exit || !strings.Contains(stdout, has) {
		t.Errorf("%s: exit %d, not %d, or no %s in\n%s\n%s", what, got, exit, has, stdout, stderr)
		return
	}
	if lines == 0 {
		return
	}
	count := 0
	for decoder := jsontext.NewDecoder(strings.NewReader(stdout)); ; count++ {
		if _, err := decoder.ReadValue(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s: not JSON: %v\n%s", what, err, stdout)
			return
		}
	}
	if lines > 0 && count != lines {
		t.Errorf("%s: %d values, not %d:\n%s", what, count, lines, stdout)
	}
	if exit == 1 && !strings.Contains(stdout, `"error":{"code":"malformed"`) && !strings.Contains(stdout, `"conflict"`) {
		t.Errorf("%s: %s", what, stdout)
	}
}

// TestCommandLineForPeople: errors on standard error with a hint, payloads on standard output, payloads from files and standard input.
func TestCommandLineForPeople(t *testing.T) {
	n := cliNode(t)
	must(t, os.WriteFile(n.file("payload.json"), []byte(`{"sku": "from a file"}`), 0o600))
	for _, tt := range []struct {
		stdin          string
		args           []string
		stdout, stderr string
		exit           int
	}{
		{"", []string{"call", "stock.query", "@payload.json"}, `"from a file"`, "answered by stock-01 after", 0},
		{`{"sku": "from stdin"}`, []string{"call", "stock.query", "-"}, `"from stdin"`, "answered by stock-01 after", 0},
		{"", []string{"call", "stock.query", `{"sku": 7}`}, "", "/sku", 3},
		{"", []string{"call", "no.such"}, "", "hint: ", 4},
		{"", []string{"call", "secret.read"}, "", "hint: ", 3},
		{"", []string{"call", "stock.hold", "--timeout", "200ms"}, "", "error: timeout", 4},
		{"", []string{"call", "stock.fail"}, "", "sold_out", 5},
		{"", []string{"agents"}, "stock.query@1.2.0", "", 0},
		{"", []string{"explain", "stock.query", `{"sku": "A"}`}, "it would go to stock-01", "", 0},
		{"", []string{"--help"}, "Exit codes:", "", 0},
		{"", []string{"call", "--help"}, "agent-reach call stock.query", "", 0},
	} {
		stdout, stderr, exit := n.cliWith(t, tt.stdin, tt.args...)
		if exit != tt.exit || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) || tt.exit != 0 && stdout != "" {
			t.Errorf("%v: exit %d\n%s\n%s", tt.args, exit, stdout, stderr)
		}
	}
}
