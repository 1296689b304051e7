package schema

// members is properties, patternProperties and additionalProperties.
type members struct {
	named    map[string]*rule
	patterns []patternRule
	rest     *rule // nil: none, and nothing is evaluated
}

type patternRule struct {
	*pattern
	r *rule
}

func (a *members) apply(c *checker, v int32, m marks) bool {
	fits, i := true, 0
	end := c.t.values[v].next
	for child := v + 1; child < end; child = c.t.values[child].next {
		ok, evaluated := a.member(c, child)
		if !ok {
			fits = false
			if !c.loud {
				return false
			}
		}
		if evaluated {
			m.set(i)
		}
		i++
	}
	return fits
}

// member applies what is meant for the member: evaluated tells whether anything is.
func (a *members) member(c *checker, child int32) (ok, evaluated bool) {
	name := c.t.name(child)
	ok = c.spend(2 + len(name)/32)
	if r := a.named[string(name)]; r != nil {
		evaluated = true
		ok = c.eval(r, child, nil) && ok
	}
	for _, p := range a.patterns {
		if c.match(p.pattern, name) {
			evaluated = true
			ok = c.eval(p.r, child, nil) && ok
		}
	}
	if !evaluated && a.rest != nil {
		return c.evalRest(a.rest, child) && ok, true
	}
	return ok, evaluated
}

// names is propertyNames.
type names struct{ r *rule }

func (a names) apply(c *checker, v int32, _ marks) bool {
	fits := true
	outer := c.named
	for child := v + 1; child < c.t.values[v].next; child = c.t.values[child].next {
		c.named = child
		if !c.eval(a.r, c.nameOf(child), nil) {
			fits = false
			if !c.loud {
				break
			}
		}
	}
	c.named = outer
	return fits
}

// nameOf makes the last value stand for a member's name, until it is called for the next.
func (c *checker) nameOf(child int32) int32 {
	w := c.t.values[child]
	last := int32(len(c.t.values) - 1)
	c.t.values[last] = value{kind: text, unquoted: w.nameUnquoted, start: w.name, end: w.nameTo, next: last + 1}
	return last
}

// items is prefixItems and items.
type items struct {
	prefix []*rule
	rest   *rule // nil: none, and nothing is evaluated
}

func (a *items) apply(c *checker, v int32, m marks) bool {
	fits, i := true, 0
	end := c.t.values[v].next
	for child := v + 1; child < end; child = c.t.values[child].next {
		ok := true
		switch {
		case i < len(a.prefix):
			ok = c.eval(a.prefix[i], child, nil)
		case a.rest == nil:
			return fits
		default:
			ok = c.evalRest(a.rest, child)
		}
		if !ok {
			fits = false
			if !c.loud {
				return false
			}
		}
		m.set(i)
		i++
	}
	return fits
}

// contains is contains with minContains and maxContains; most is -1 where there is no limit.
type contains struct {
	r           *rule
	least, most int
	evaluates   bool // since 2020-12
}

func (a *contains) apply(c *checker, v int32, m marks) bool {
	n, i := 0, 0
	for child := v + 1; child < c.t.values[v].next; child = c.t.values[child].next {
		if c.quietly(a.r, child, nil) {
			n++
			if a.evaluates {
				m.set(i)
			}
		}
		i++
	}
	if within(n, a.least, a.most) {
		return true
	}
	c.report(v, amount("has %d items of the kind that contains asks for", n, a.least, a.most))
	return false
}
