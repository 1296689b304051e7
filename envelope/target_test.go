package envelope_test

import (
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		target, version string
		admits          bool
	}{
		{"a", "0.0.1", true}, {"a", "9.9.9", true}, {"a@*", "3.2.1", true},
		{"a@1.2.3", "1.2.3", true}, {"a@1.2.3", "1.2.4", false},
		{"a@1.2", "1.2.9", true}, {"a@1.2", "1.3.0", false}, {"a@1", "1.9.9", true}, {"a@1", "2.0.0", false},
		{"a@^1.2", "1.2.0", true}, {"a@^1.2", "1.9.0", true}, {"a@^1.2", "1.1.9", false}, {"a@^1.2", "2.0.0", false},
		{"a@^0.3", "0.3.9", true}, {"a@^0.3", "0.4.0", false}, {"a@^0.0.3", "0.0.4", false},
		{"a@~1.2", "1.2.9", true}, {"a@~1.2", "1.3.0", false}, {"a@~1", "1.9.0", true},
		{"a@>=1.2", "1.2.0", true}, {"a@>=1.2", "7.0.0", true}, {"a@>=1.2", "1.1.0", false},
		{"a@1.x", "1.7.0", true}, {"a@1.x", "2.0.0", false}, {"a@1.2.x", "1.2.8", true}, {"a@1.2.x", "1.3.0", false}, {"a@0.x", "0.1.0", true},
	} {
		target, err := envelope.ParseTarget(c.target)
		ok(t, err)
		v, err := envelope.ParseVersion(c.version)
		ok(t, err)
		if target.Name != "a" || target.Admits(v) != c.admits {
			t.Errorf("%s admits %s: %v, want %v", c.target, c.version, !c.admits, c.admits)
		}
	}
}

func TestErrorsOfTargets(t *testing.T) {
	for _, s := range []string{"a@", "a@v1", "a@1.2.3.4", "a@01", "a@^", "a@>1", "a@1 || 2", "a@^1.x", "a@x", "a@1..2", "a@1.", "a@.1", "a@1.x.x", "a@12345678901", "a@\u0661", "a@1\n", "a@@1"} {
		_, err := envelope.ParseTarget(s)
		want(t, err, envelope.Malformed, "version range", "of a", "write a@1.2.3")
	}
	_, err := envelope.ParseTarget("A@1")
	want(t, err, envelope.Malformed, "target_capability has the character 'A'")
	for _, s := range []string{"", "1", "1.2", "v1.2.3", "1.2.3.4", "1.02.3", "latest", "1.2.3\n"} {
		_, err := envelope.ParseVersion(s)
		want(t, err, envelope.Malformed, "is not of the form 1.2.3")
	}
	v, err := envelope.ParseVersion("1.2.3-rc.1+build")
	ok(t, err)
	if v.String() != "1.2.3-rc.1+build" {
		t.Error(v)
	}
}
