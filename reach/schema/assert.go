package schema

import (
	"fmt"
)

// length is minLength and maxLength, in characters; most is -1 where there is no limit.
type length struct{ least, most int }

func (a length) holds(c *checker, v int32) bool { return within(c.length(v), a.least, a.most) }

func (a length) wrong(c *checker, v int32) string {
	return amount("is %d characters long", c.length(v), a.least, a.most)
}

// count is minItems and maxItems, minProperties and maxProperties; most is -1 where there is no limit.
type count struct {
	least, most int
	what        string
}

func (a count) holds(c *checker, v int32) bool {
	return within(int(c.t.values[v].count), a.least, a.most)
}

func (a count) wrong(c *checker, v int32) string {
	return amount("has %d "+a.what, int(c.t.values[v].count), a.least, a.most)
}

func within(n, least, most int) bool { return n >= least && (most < 0 || n <= most) }

func amount(format string, n, least, most int) string {
	got := fmt.Sprintf(format, n)
	if n < least {
		return fmt.Sprintf("%s; the least is %d", got, least)
	}
	return fmt.Sprintf("%s; the most is %d", got, most)
}

func (p *pattern) holds(c *checker, v int32) bool { return c.match(p, c.t.text(v)) }

func (p *pattern) wrong(*checker, int32) string {
	return fmt.Sprintf("does not match the pattern %s", cut(p.re.String(), 128))
}

// match costs at worst the pattern's size times the text's length, at 10 ns each.
func (c *checker) match(p *pattern, s []byte) bool {
	return c.spend(1+p.size*len(s)/4) && p.re.Match(s)
}

// bound is one of minimum, maximum and their exclusive forms.
type bound struct {
	limit decimal
	plain int64 // limit, if isPlain
	isPlain,
	upper, exclusive bool
}

func (a *bound) holds(c *checker, v int32) bool {
	raw := c.t.text(v)
	if n, ok := small(raw); ok && a.isPlain {
		return a.allows(compareInts(n, a.plain))
	}
	return a.allows(parseDecimal(raw).compare(a.limit))
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// allows judges a number that compares so with the limit.
func (a *bound) allows(order int) bool {
	if order == 0 {
		return !a.exclusive
	}
	return order > 0 != a.upper
}

func (a *bound) wrong(c *checker, v int32) string {
	words := map[[2]bool]string{
		{false, false}: "at least", {false, true}: "more than",
		{true, false}: "at most", {true, true}: "less than",
	}
	return fmt.Sprintf("is %s; it must be %s %s", cut(string(c.t.text(v)), 32), words[[2]bool{a.upper, a.exclusive}], a.limit)
}

// multiple is multipleOf.
type multiple struct{ of decimal }

func (a multiple) holds(c *checker, v int32) bool {
	raw := c.t.text(v)
	c.spend(len(raw) * len(raw) / 256)
	return parseDecimal(raw).multipleOf(a.of)
}

func (a multiple) wrong(c *checker, v int32) string {
	return fmt.Sprintf("is %s; it must be a multiple of %s", cut(string(c.t.text(v)), 32), a.of)
}

// unique is uniqueItems.
type unique struct{}

func (unique) holds(c *checker, v int32) bool {
	first, _ := c.duplicates(v)
	return first < 0
}

func (unique) wrong(c *checker, v int32) string {
	first, second := c.duplicates(v)
	return fmt.Sprintf("has the same item at %d and %d; items must differ", first, second)
}

func (c *checker) duplicates(v int32) (first, second int) {
	w := &c.t.values[v]
	// Sums are remembered, but who pays for them first is not worth finding out.
	if w.count < 2 || !c.spend(4*int(w.count)+2*int(w.next-v)) {
		return -1, -1
	}
	if c.hashes == nil {
		c.hashes = newHasher(&c.t)
	}
	return c.hashes.duplicates(v)
}

// required is required, and dependentRequired where if is not empty.
type required struct {
	when  string
	names []string
}

func (a *required) holds(c *checker, v int32) bool {
	if a.when != "" && c.member(v, a.when) < 0 {
		return true
	}
	for _, name := range a.names {
		if c.member(v, name) < 0 {
			return false
		}
	}
	return true
}

func (a *required) wrong(c *checker, v int32) string {
	var missing []string
	for _, name := range a.names {
		if c.member(v, name) < 0 {
			missing = append(missing, name)
		}
	}
	text := "lacks " + quoteList(missing, "and")
	if a.when != "" {
		text += fmt.Sprintf(", which %s makes necessary", quote(a.when))
	}
	return text
}
