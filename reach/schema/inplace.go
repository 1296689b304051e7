package schema

import "fmt"

// all is allOf and $ref: every rule must fit.
type all []*rule

func (a all) apply(c *checker, v int32, m marks) bool {
	fits := true
	for _, r := range a {
		if !c.eval(r, v, m) {
			if !c.loud {
				return false
			}
			fits = false
		}
	}
	return fits
}

// anyOf: one rule must fit. Where marks are wanted all are tried, for each adds its own.
type anyOf []*rule

func (a anyOf) apply(c *checker, v int32, m marks) bool {
	fits := false
	for _, r := range a {
		own := c.fork(m)
		if !c.quietly(r, v, own) {
			continue
		}
		fits = true
		if m == nil {
			break
		}
		m.add(own)
	}
	if !fits {
		c.reportNone(v, a)
	}
	return fits
}

// oneOf: exactly one rule must fit.
type oneOf []*rule

func (a oneOf) apply(c *checker, v int32, m marks) bool {
	first := -1
	for i, r := range a {
		own := c.fork(m)
		if !c.quietly(r, v, own) {
			continue
		}
		if first >= 0 {
			c.report(v, fmt.Sprintf("fits alternatives %d and %d; it must fit one only", first+1, i+1))
			return false
		}
		first = i
		m.add(own)
	}
	if first < 0 {
		c.reportNone(v, a)
	}
	return first >= 0
}

// not: the rule must not fit.
type not struct{ r *rule }

func (a not) apply(c *checker, v int32, _ marks) bool {
	if !c.quietly(a.r, v, nil) {
		return true
	}
	c.report(v, "fits what the schema excludes with not")
	return false
}

// conditional is if, then and else; the latter two may be nil.
type conditional struct{ test, then, otherwise *rule }

func (a conditional) apply(c *checker, v int32, m marks) bool {
	own := c.fork(m)
	next := a.otherwise
	if c.quietly(a.test, v, own) {
		m.add(own)
		next = a.then
	}
	return next == nil || c.eval(next, v, m)
}

// dependent is dependentSchemas: the rule must fit an object that has the member.
type dependent struct {
	when string
	r    *rule
}

func (a dependent) apply(c *checker, v int32, m marks) bool {
	return c.member(v, a.when) < 0 || c.eval(a.r, v, m)
}
