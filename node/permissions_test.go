package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

const table = `rules:
  - deny:  {caller: "intern-*", capability: "payroll.*"}
  - allow: {caller: "order-agent", capability: "stock.query", agent: "*"}
  - allow: {agent: "public-01"}
`

func TestPermissionsFirstMatchDecides(t *testing.T) {
	p, err := OpenPermissions(write(t, "permissions.yaml", table))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		caller, capability, agent string
		want                      bool
	}{
		{"order-agent", "stock.query", "inventory-1", true},
		{"order-agent-2", "stock.query", "inventory-1", false},
		{"order-agent", "stock.update", "inventory-1", false},
		{"anyone", "stock.update", "public-01", true},
		{"intern-7", "payroll.read", "public-01", false},
		{"intern-7", "pay", "public-01", true},
	} {
		err := p.Table().Check(tt.caller, tt.capability, tt.agent)
		if (err == nil) != tt.want || err != nil && !errors.Is(err, envelope.Forbidden) {
			t.Errorf("%s calls %s on %s: %v", tt.caller, tt.capability, tt.agent, err)
		}
	}
	if err := p.Table().Check("a", "b", "c"); !strings.Contains(err.Error(), "permissions.yaml") {
		t.Errorf("the refusal does not name the table: %v", err)
	}
}

func TestNoPermissionsFileIsNoTable(t *testing.T) {
	p, err := OpenPermissions("")
	if err != nil || p.Table() != nil {
		t.Errorf("%v, %v", p.Table(), err)
	}
	if !strings.Contains(p.String(), "open to callers on this machine, closed to others") {
		t.Errorf("the log would say %q", p)
	}
}

func TestPermissionsRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an empty file", "", `permissions.yaml: has no rules; a table that denies everything says so: rules: []`},
		{"a misspelt name", "rules:\n  - allow: {calller: a}\n", `permissions.yaml:2: rules[0].allow.calller: no such key; did you mean caller?`},
		{"a misspelt effect", "rules:\n  - alow: {caller: a}\n", `:2: rules[0].alow: no such key; did you mean allow?`},
		{"both effects", "rules:\n  - allow: {caller: a}\n    deny: {caller: b}\n", `:2: rules[0]: a rule is either "allow: {…}" or "deny: {…}"`},
		{"no effect", "rules:\n  - allow: {caller: a}\n  - {}\n", `:3: rules[1]: a rule is either`},
		{"nothing named", "rules:\n  - allow: {}\n", `:2: rules[0].allow: names nothing; to allow everything, write {caller: "*"}`},
		{"nothing at all", "rules:\n  - deny:\n", `:2: rules[0].deny: names nothing`},
		{"an empty name", "rules:\n  - allow: {caller: \"\"}\n", `:2: rules[0].allow.caller: is empty; write "*" for every one`},
		{"a star in the middle", "rules:\n  - allow: {caller: \"a*b\"}\n", `:2: rules[0].allow.caller: "a*b": a * may stand at the end only`},
		{"a look-alike", "rules:\n  - allow: {caller: \"оrder\"}\n", `"оrder" could never match: caller has the character '\u043e' (U+043E) at byte 0`},
		{"capital letters", "rules:\n  - allow: {capability: Stock}\n", `"Stock" could never match: capability has the character 'S'`},
		{"a version range", "rules:\n  - allow: {capability: \"a@^1\"}\n", `"a@^1" could never match: capability has the character '@'`},
		{"a number", "rules:\n  - allow: {caller: 12}\n", `:2: rules[0].allow.caller is 12; it has to be text in quotes, such as "name"`},
		{"a rule that is text", "rules: [allow]\n", `:1: rules[0] has to be a section with the keys allow, deny`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := OpenPermissions(write(t, "permissions.yaml", tt.text))
			if !errors.Is(err, envelope.Malformed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestPermissionsDenyingEverything(t *testing.T) {
	p, err := OpenPermissions(write(t, "permissions.yaml", "rules: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Table().Check("a", "b", "c"); !errors.Is(err, envelope.Forbidden) {
		t.Errorf("got %v", err)
	}
}

func TestReloadKeepsTheTableOnAMistake(t *testing.T) {
	file := write(t, "permissions.yaml", table)
	p, err := OpenPermissions(file)
	if err != nil {
		t.Fatal(err)
	}
	before := p.Table()
	write(t, file, "rules: [nonsense]\n")
	if err := p.Reload(); err == nil || p.Table() != before {
		t.Errorf("a bad file: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(); err == nil || p.Table() != before {
		t.Errorf("a missing file: %v", err)
	}
	write(t, file, "rules: []\n")
	if err := p.Reload(); err != nil || p.Table() == before {
		t.Errorf("a good file: %v", err)
	}
}

func FuzzPermissions(f *testing.F) {
	f.Add([]byte(table), "intern-1", "payroll.read", "x")
	f.Add([]byte("rules: [{allow: {caller: \"*\"}}]"), "a", "b", "c")
	f.Add([]byte("rules: [{deny: &x {caller: \"*\"}}, {allow: *x}]"), "a", "b", "c")
	f.Fuzz(func(t *testing.T, text []byte, caller, capability, agent string) {
		p, err := parsePermissions("p.yaml", text)
		if err != nil {
			return
		}
		allowed := p.Check(caller, capability, agent) == nil
		if allowed && len(p.Rules) == 0 {
			t.Error("a table without rules allows something")
		}
		if allowed && p.CheckAny(caller, capability) != nil {
			t.Error("allowed on one agent, but not on any")
		}
	})
}
