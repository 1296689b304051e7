package node

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/agent-reach/agent-reach/envelope"
)

const maxRules = 10_000

// Permissions is the administrator's table in force: that of auth.permissions_file, read again by Reload.
//
//	rules:                                                    # the first that matches decides
//	  - deny:  {caller: "intern-*", capability: "payroll.*"}
//	  - allow: {caller: "order-*", capability: "stock.query", agent: "*"}
//
// A name left out means every one; a * at the end matches the rest. What no rule matches is denied.
type Permissions struct {
	path  string
	table atomic.Pointer[envelope.Permissions]
}

// OpenPermissions reads the table at path. An empty path means that there is none: then package reach lets callers on this
// machine call everything, and others nothing.
func OpenPermissions(path string) (*Permissions, error) {
	p := &Permissions{path: path}
	if path == "" {
		return p, nil
	}
	return p, p.Reload()
}

// Reload reads the file again. On an error the table in force stays.
func (p *Permissions) Reload() error {
	text, err := readBounded(p.path)
	if err != nil {
		return unreadable(envelope.StepPermission, "permission table (auth.permissions_file)", err)
	}
	table, err := parsePermissions(p.path, text)
	if err != nil {
		return err
	}
	p.table.Store(table)
	return nil
}

// Table is the table in force, nil if no file is configured. It must not be changed.
func (p *Permissions) Table() *envelope.Permissions { return p.table.Load() }

// String says what is in force, for the log.
func (p *Permissions) String() string {
	if table := p.table.Load(); table != nil {
		return fmt.Sprintf("%s: %d rules, otherwise closed", p.path, len(table.Rules))
	}
	return "no auth.permissions_file: open to callers on this machine, closed to others"
}

type permissionsFile struct {
	Rules []permissionRule `yaml:"rules"`
}

type permissionRule struct {
	Allow *rulePattern `yaml:"allow"`
	Deny  *rulePattern `yaml:"deny"`
}

type rulePattern struct {
	Caller     string `yaml:"caller"`
	Capability string `yaml:"capability"`
	Agent      string `yaml:"agent"`
}

func parsePermissions(file string, text []byte) (*envelope.Permissions, error) {
	var in permissionsFile
	d := readYAML(file, text, &in)
	if len(in.Rules) > maxRules {
		d.note(0, "%d rules; the limit is %d: join names with *", len(in.Rules), maxRules)
	}
	if !d.set("rules") && len(d.mistakes) == 0 {
		d.note(0, "has no rules; a table that denies everything says so: rules: []")
	}
	out := &envelope.Permissions{Source: file}
	for i := range in.Rules {
		out.Rules = append(out.Rules, d.rule(fmt.Sprintf("rules[%d]", i), in.Rules[i]))
	}
	if err := mistakesError("the permission table", d.mistakes); err != nil {
		return nil, err
	}
	return out, nil
}

func (d *document) rule(path string, in permissionRule) envelope.Rule {
	pattern, key := in.Allow, "allow"
	if in.Allow == nil {
		pattern, key = in.Deny, "deny"
	}
	if pattern == nil || in.Allow != nil && in.Deny != nil {
		d.refuse(path, `a rule is either "allow: {…}" or "deny: {…}"`)
		return envelope.Rule{}
	}
	path = join(path, key)
	names := d.pattern(path, "caller", pattern.Caller, envelope.CheckAgentID) +
		d.pattern(path, "capability", pattern.Capability, envelope.CheckCapability) +
		d.pattern(path, "agent", pattern.Agent, envelope.CheckAgentID)
	if names == 0 {
		d.refuse(path, `names nothing; to %s everything, write {caller: "*"}`, key)
	}
	return envelope.Rule{Caller: pattern.Caller, Capability: pattern.Capability, Agent: pattern.Agent, Allow: in.Allow != nil}
}

// pattern checks one name of a rule and returns 1 if it is there: one that could never match is a mistake.
func (d *document) pattern(path, key, pattern string, check func(field, id string) error) (there int) {
	at := join(path, key)
	if !d.set(at) {
		return 0
	}
	prefix, open := strings.CutSuffix(pattern, "*")
	switch {
	case pattern == "":
		d.refuse(at, `is empty; write "*" for every one, or leave it out`)
	case strings.Contains(prefix, "*"):
		d.refuse(at, "%q: a * may stand at the end only", pattern)
	case open && prefix == "":
	default:
		if err := check(key, prefix); err != nil {
			e := envelope.AsError(err)
			d.refuse(at, "%q could never match: %s; %s", pattern, e.Text, e.Hint)
		}
	}
	return 1
}
