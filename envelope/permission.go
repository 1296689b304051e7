package envelope

import (
	"fmt"
	"strings"
)

// Rule allows or denies callers a capability on agents. A name that ends in "*" matches whatever begins so; an empty one, all.
type Rule struct {
	Caller, Capability, Agent string
	Allow                     bool
}

// Permissions is the administrator's table: the first rule that matches decides, Default where none does.
type Permissions struct {
	Rules   []Rule
	Default bool
	Source  string // where the table comes from, for messages
}

// Allows is Check as a yes or no; it allocates nothing.
func (p *Permissions) Allows(caller, capability, agent string) bool {
	for i := range p.Rules {
		if r := &p.Rules[i]; matches(r.Caller, caller) && matches(r.Capability, capability) && matches(r.Agent, agent) {
			return r.Allow
		}
	}
	return p.Default
}

// Check answers whether caller may call capability on agent.
func (p *Permissions) Check(caller, capability, agent string) error {
	for i, r := range p.Rules {
		if matches(r.Caller, caller) && matches(r.Capability, capability) && matches(r.Agent, agent) {
			if r.Allow {
				return nil
			}
			return p.refuse(caller, capability, agent, fmt.Sprintf("rule %d denies it", i+1))
		}
	}
	if p.Default {
		return nil
	}
	return p.refuse(caller, capability, agent, "no rule allows it")
}

// CheckAny answers whether caller may call capability on some agent, known or not.
func (p *Permissions) CheckAny(caller, capability string) error {
	for i, r := range p.Rules {
		if !matches(r.Caller, caller) || !matches(r.Capability, capability) {
			continue
		}
		if r.Allow {
			return nil
		}
		if r.Agent == "" || r.Agent == "*" {
			return p.refuse(caller, capability, "any agent", fmt.Sprintf("rule %d denies it", i+1))
		}
	}
	if p.Default {
		return nil
	}
	return p.refuse(caller, capability, "any agent", "no rule allows it")
}

func (p *Permissions) refuse(caller, capability, agent, why string) error {
	return Errorf(Forbidden, StepPermission, "%s may not call %q on %s: %s", caller, capability, agent, why).
		WithHint("the administrator's table is %s", p.Source)
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == "" || pattern == name
}
