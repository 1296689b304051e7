package schema

import (
	"fmt"
	"strings"
)

// reportNone explains why v fits none of the alternatives. Those that fail at v itself, mostly by its type, are summed up;
// of those that come nearer every place is reported. An alternative that is told from the others by a constant, and whose
// constant does not match, is not near if any other is.
func (c *checker) reportNone(v int32, alternatives []*rule) {
	if !c.listing() {
		return
	}
	var reasons []string
	var near, meant [][]place
	for _, r := range alternatives {
		places, constants := c.explain(r, v)
		switch {
		case !c.reaches(v, places):
			if len(reasons) < maxPlaces {
				reasons = appendTexts(reasons, places)
			}
		case constants:
			near = append(near, places)
		default:
			meant = append(meant, places)
		}
	}
	if len(meant) > 0 {
		near = meant
	}
	if len(near) != 1 {
		c.report(v, noneText(len(alternatives), reasons, len(near)))
	}
	for _, places := range near {
		c.take(places)
	}
}

// explain lists why v does not fit r, without reporting it, and whether constants differ.
func (c *checker) explain(r *rule, v int32) (found []place, constants bool) {
	places, more, list, before := c.places, c.more, c.list, c.constants
	c.lists++
	c.places, c.more, c.list = nil, 0, c.lists
	c.eval(r, v, nil)
	found, constants = c.places, c.constants > before
	c.places, c.more, c.list = places, more, list
	return found, constants
}

// reaches reports whether more is wrong than one thing at v.
func (c *checker) reaches(v int32, places []place) bool {
	return len(places) > 1 || len(places) == 1 && places[0].Pointer != c.pointer(v)
}

func appendTexts(texts []string, places []place) []string {
	for _, p := range places {
		texts = append(texts, p.Text)
	}
	return texts
}

func noneText(alternatives int, reasons []string, near int) string {
	text := fmt.Sprintf("fits none of the %d alternatives", alternatives)
	if near > 0 || len(reasons) == 0 {
		return text
	}
	reasons = joinTypes(reasons)
	return text + ": " + joinList(reasons[:min(len(reasons), 6)], len(reasons), "or")
}

// joinTypes makes "got A, want B" and "got A, want C" into "got A, want B or C", and drops what is said already.
func joinTypes(reasons []string) []string {
	var got string
	var wants, others []string
	for _, r := range reasons {
		before, want, isType := strings.Cut(r, ", want ")
		if isType {
			got = before
			wants = appendNew(wants, want)
		} else {
			others = appendNew(others, r)
		}
	}
	if len(wants) == 0 {
		return others
	}
	return append([]string{got + ", want " + strings.Join(wants, " or ")}, others...)
}

func appendNew(texts []string, s string) []string {
	for _, t := range texts {
		if t == s {
			return texts
		}
	}
	return append(texts, s)
}
