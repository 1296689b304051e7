package envelope

import (
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Target is a parsed target_capability: a name, and which versions of it will do.
type Target struct {
	Name  string
	Range *semver.Constraints // nil: every version
}

var rangeForm = regexp.MustCompile(`^(\*|(\^|~|>=)?\d{1,9}(\.\d{1,9}){0,2}|\d{1,9}(\.\d{1,9})?\.x)$`)

// ParseTarget reads "name" or "name@range": contract.summarize, contract.summarize@1.2.3, @^1.2, @~1.2, @>=1.2, @1.x, @*.
func ParseTarget(s string) (Target, error) {
	name, versions, ranged := strings.Cut(s, "@")
	if err := CheckCapability("target_capability", name); err != nil {
		return Target{}, err
	}
	if !ranged {
		return Target{Name: name}, nil
	}
	if !rangeForm.MatchString(versions) {
		return Target{}, Errorf(Malformed, StepDecode, "target_capability: version range %s of %s", quote(versions), name).
			WithHint("write %s@1.2.3, @^1.2, @~1.2, @>=1.2, @1.x or @*", name)
	}
	c, err := semver.NewConstraint(versions)
	if err != nil {
		return Target{}, Errorf(Malformed, StepDecode, "target_capability: version range %q: %v", versions, err)
	}
	return Target{Name: name, Range: c}, nil
}

// Admits reports whether a capability's version is in the target's range.
func (t Target) Admits(version *semver.Version) bool { return t.Range == nil || t.Range.Check(version) }

// ParseVersion reads a capability's version: semantic versioning 2.0.0, all three numbers.
func ParseVersion(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(s)
	if err != nil {
		return nil, Errorf(Malformed, StepRegister, "version %s is not of the form 1.2.3", quote(s))
	}
	return v, nil
}
