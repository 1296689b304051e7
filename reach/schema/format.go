package schema

// format is the keyword format. It is asserted: a string of another form does not fit.
type format struct {
	name  string
	ok    func(any) error
	price int // steps per 4 bytes
}

// formatExamples are of the formats that are asserted. Others, known to no one or not checked here, accept everything.
var formatExamples = map[string]string{
	"date":                  "2026-11-30",
	"date-time":             "2026-11-30T12:00:00Z",
	"duration":              "P1DT12H",
	"email":                 "ann@example.org",
	"hostname":              "example.org",
	"ipv4":                  "192.0.2.1",
	"ipv6":                  "2001:db8::1",
	"iri":                   "https://example.org/ä",
	"iri-reference":         "../ä",
	"json-pointer":          "/a/0",
	"period":                "2026-11-30T12:00:00Z/P1D",
	"regex":                 "^[a-z]+$",
	"relative-json-pointer": "1/a",
	"semver":                "1.2.3",
	"time":                  "12:00:00Z",
	"uri":                   "https://example.org/a",
	"uri-reference":         "../a",
	"uri-template":          "https://example.org/{a}",
	"uuid":                  "0190163d-8694-739b-aea5-966c26f8ad90",
}

func (a format) holds(c *checker, v int32) bool {
	s := c.t.text(v)
	return c.spend(4+a.price*len(s)/4) && a.ok(string(s)) == nil
}

func (a format) wrong(*checker, int32) string {
	return "is no " + a.name + " (like " + formatExamples[a.name] + ")"
}

// isRegex is the format regex.
func isRegex(v any) error {
	_, _, err := patternSize(translate(v.(string)))
	return err
}
