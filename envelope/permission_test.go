package envelope_test

import (
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestPermissions(t *testing.T) {
	allow := func(caller, capability, agent string) envelope.Rule {
		return envelope.Rule{Caller: caller, Capability: capability, Agent: agent, Allow: true}
	}
	deny := func(caller, capability, agent string) envelope.Rule {
		return envelope.Rule{Caller: caller, Capability: capability, Agent: agent}
	}
	for _, c := range []struct {
		name    string
		table   envelope.Permissions
		call    [3]string // caller, capability, agent
		one     string    // why not on this agent; empty: allowed
		somehow string    // why not on any agent; empty: allowed
	}{
		{"empty table", envelope.Permissions{}, [3]string{"a", "c", "x"}, "no rule allows it", "no rule allows it"},
		{"empty table, open", envelope.Permissions{Default: true}, [3]string{"a", "c", "x"}, "", ""},
		{"allowed by name", envelope.Permissions{Rules: []envelope.Rule{allow("a", "c", "x")}}, [3]string{"a", "c", "x"}, "", ""},
		{"another agent", envelope.Permissions{Rules: []envelope.Rule{allow("a", "c", "x")}}, [3]string{"a", "c", "y"}, "no rule allows it", ""},
		{"another caller", envelope.Permissions{Rules: []envelope.Rule{allow("a", "c", "x")}}, [3]string{"b", "c", "x"}, "no rule", "no rule"},
		{"another capability", envelope.Permissions{Rules: []envelope.Rule{allow("a", "c", "x")}}, [3]string{"a", "d", "x"}, "no rule", "no rule"},
		{"empty means all", envelope.Permissions{Rules: []envelope.Rule{allow("", "", "")}}, [3]string{"a", "c", "x"}, "", ""},
		{"star means all", envelope.Permissions{Rules: []envelope.Rule{allow("*", "*", "*")}}, [3]string{"a", "c", "x"}, "", ""},
		{"prefixes", envelope.Permissions{Rules: []envelope.Rule{allow("order-*", "stock.*", "stock-*")}}, [3]string{"order-1", "stock.query", "stock-9"}, "", ""},
		{"prefix is no substring", envelope.Permissions{Rules: []envelope.Rule{allow("order*", "", "")}}, [3]string{"reorder", "c", "x"}, "no rule", "no rule"},
		{"prefix matches itself", envelope.Permissions{Rules: []envelope.Rule{allow("order*", "", "")}}, [3]string{"order", "c", "x"}, "", ""},
		{"star only at the end", envelope.Permissions{Rules: []envelope.Rule{allow("*-1", "", "")}}, [3]string{"order-1", "c", "x"}, "no rule", "no rule"},
		{"first match denies", envelope.Permissions{Rules: []envelope.Rule{deny("a", "", ""), allow("", "", "")}}, [3]string{"a", "c", "x"}, "rule 1 denies", "rule 1 denies"},
		{"first match allows", envelope.Permissions{Rules: []envelope.Rule{allow("a", "", ""), deny("", "", "")}}, [3]string{"a", "c", "x"}, "", ""},
		{"denied on one agent only", envelope.Permissions{Rules: []envelope.Rule{deny("a", "c", "x"), allow("", "", "")}}, [3]string{"a", "c", "x"}, "rule 1 denies", ""},
		{"denied on one agent, nothing else", envelope.Permissions{Rules: []envelope.Rule{deny("a", "c", "x")}}, [3]string{"a", "c", "y"}, "no rule", "no rule"},
		{"denied on one agent, open", envelope.Permissions{Rules: []envelope.Rule{deny("a", "c", "x")}, Default: true}, [3]string{"a", "c", "y"}, "", ""},
		{"denied on all, second rule", envelope.Permissions{Rules: []envelope.Rule{allow("b", "", ""), deny("a", "c*", "*")}, Default: true}, [3]string{"a", "cc", "x"}, "rule 2 denies", "rule 2 denies"},
		{"allowed on some before denied on all", envelope.Permissions{Rules: []envelope.Rule{allow("a", "c", "x"), deny("a", "c", "")}}, [3]string{"a", "c", "y"}, "rule 2 denies", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.table.Source = "permissions.yaml"
			check(t, c.table.Check(c.call[0], c.call[1], c.call[2]), c.one, c.call[2])
			check(t, c.table.CheckAny(c.call[0], c.call[1]), c.somehow, "any agent")
			if c.table.Allows(c.call[0], c.call[1], c.call[2]) != (c.one == "") {
				t.Error("Allows and Check disagree")
			}
		})
	}
}

func check(t *testing.T, err error, why, agent string) {
	t.Helper()
	if why == "" {
		ok(t, err)
		return
	}
	want(t, err, envelope.Forbidden, why, " on "+agent, "permissions.yaml", "may not call")
}
