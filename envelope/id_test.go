package envelope_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

// TestLookAlikesAreNamed (case 33): what cannot be told by eye is refused, and named by its code point, not by its glyph.
func TestLookAlikesAreNamed(t *testing.T) {
	for id, character := range map[string]string{
		"p\u0430yments":       "U+0430", // Cyrillic a
		"\u03bfrder":          "U+03BF", // Greek o
		"\uff50ayments":       "U+FF50", // full-width p
		"pa\u0443ments":       "U+0443",
		"payments\u2024a":     "U+2024", // one dot leader
		"payments\u2010a":     "U+2010", // hyphen
		"pay\u00admen":        "U+00AD", // soft hyphen
		"pay\u200bments":      "U+200B", // zero width
		"pay\u200dments":      "U+200D",
		"\ufeffpayments":      "U+FEFF",
		"pay\u202estnem":      "U+202E", // turns what follows around
		"pay\u2066ments":      "U+2066",
		"payments\u200f":      "U+200F",
		"paym\u0435\u0301nts": "U+0435",
		"cafe\u0301":          "U+0301", // combining
		"caf\u00e9":           "U+00E9",
		"pay ments":           "U+0020",
		"pay/ments":           "U+002F",
		"pay\x00ments":        "U+0000",
		"pay\nments":          "U+000A",
		"pay\u2028ments":      "U+2028",
		"pay\x85ments":        "U+FFFD", // no UTF-8
		"pay@1":               "U+0040",
		"pay*":                "U+002A",
		"pay\\ments":          "U+005C",
		"pay\u0661":           "U+0661", // Arabic digit
		"\U0001f916":          "U+1F916",
	} {
		want(t, envelope.CheckAgentID("agent_id", id), envelope.Malformed, "agent_id has the character", character)
		want(t, envelope.CheckCapability("name", id), envelope.Malformed, "name has the character", character)
	}
}

func TestAlphabets(t *testing.T) {
	const lower, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	for _, a := range []struct {
		name        string
		check       func(field, s string) error
		first, rest string
	}{
		{"agent id", envelope.CheckAgentID, lower + upper + digits, lower + upper + digits + "._-"},
		{"capability", envelope.CheckCapability, lower + digits, lower + digits + "._:-"},
		{"token", envelope.CheckToken, tokens(), tokens()},
	} {
		for c := range 256 {
			s := string([]byte{byte(c)})
			if err := a.check("f", s); (err == nil) != (c < 128 && strings.Contains(a.first, s)) {
				t.Errorf("%s: first character %q: %v", a.name, s, err)
			}
			if err := a.check("f", "a"+s); (err == nil) != (c < 128 && strings.Contains(a.rest, s)) {
				t.Errorf("%s: second character %q: %v", a.name, s, err)
			}
		}
		ok(t, a.check("f", strings.Repeat("a", envelope.MaxID)))
		want(t, a.check("f", strings.Repeat("a", envelope.MaxID+1)), envelope.Malformed, "f is 129 bytes long; the limit is 128")
		want(t, a.check("f", ""), envelope.Malformed, "f is empty", "1 to 128")
	}
}

func tokens() (all string) {
	for c := '!'; c <= '~'; c++ {
		all += string(c)
	}
	return all
}

// TestNoTwoTriplesShareAWireName (case 33): node, agent and capability travel as members of their own, and wherever they are
// joined, by a character that none of them may have.
func TestNoTwoTriplesShareAWireName(t *testing.T) {
	for _, separator := range []string{"/", "\x00", " ", "@", "|", ",", "\n"} {
		for _, check := range []func(field, s string) error{envelope.CheckAgentID, envelope.CheckCapability} {
			if check("f", "a"+separator+"b") == nil {
				t.Errorf("%q can stand in a name and so cannot separate names", separator)
			}
		}
	}
	random := rand.New(rand.NewPCG(3, 3))
	name := func() string { // short, of separators mostly: collisions come fast if there are any
		s := string("ab"[random.IntN(2)])
		for range random.IntN(3) {
			s += string("ab._-"[random.IntN(5)])
		}
		return s
	}
	seen := make(map[string][3]string)
	for range 50_000 {
		triple := [3]string{name(), name(), name()}
		h := request()
		h.ToNode, h.TargetAgent, h.TargetCapability = triple[0], triple[1], triple[2]
		ok(t, envelope.CheckAgentID("to_node", triple[0]))
		wire := strings.Join(triple[:], "/")
		if other, known := seen[wire]; known && other != triple {
			t.Fatalf("%q and %q are both %s", other, triple, wire)
		}
		seen[wire] = triple
	}
	one, two := request(), request()
	one.TargetAgent, one.TargetCapability = "a_", "b"
	two.TargetAgent, two.TargetCapability = "a", "b_"
	if message(t, one, "").Same(message(t, two, "")) {
		t.Error("a_ b and a b_ are the same message")
	}
	for _, h := range []envelope.Header{one, two} {
		got := message(t, h, "").Header
		if got.TargetAgent != h.TargetAgent || got.TargetCapability != h.TargetCapability {
			t.Errorf("%s %s became %s %s", h.TargetAgent, h.TargetCapability, got.TargetAgent, got.TargetCapability)
		}
	}
}

// TestIDsAreComparedAsTheyAre: no folding, no normal form; two ids are one only when their bytes are.
func TestIDsAreComparedAsTheyAre(t *testing.T) {
	p := envelope.Permissions{Rules: []envelope.Rule{{Caller: "Agent-a", Capability: "c", Agent: "a_", Allow: true}}}
	ok(t, p.Check("Agent-a", "c", "a_"))
	for _, other := range [][2]string{{"agent-a", "a_"}, {"Agent-a", "a"}, {"Agent-a", "A_"}, {"Agent-a", "a_b"}, {"Agent-a", "a__"}} {
		want(t, p.Check(other[0], "c", other[1]), envelope.Forbidden, fmt.Sprintf("%s may not call", other[0]))
	}
}
