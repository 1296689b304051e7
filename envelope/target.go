package envelope

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Target is a parsed target_capability: a name, and which versions of it will do.
type Target struct {
	Name  string
	Range *semver.Constraints // nil: every version
}

// ParseTarget reads "name" or "name@range": contract.summarize, contract.summarize@1.2.3, @^1.2, @~1.2, @>=1.2, @1.x, @*.
func ParseTarget(s string) (Target, error) {
	if err := checkTarget(s); err != nil {
		return Target{}, err
	}
	name, versions, ranged := strings.Cut(s, "@")
	if !ranged {
		return Target{Name: name}, nil
	}
	c, err := semver.NewConstraint(versions)
	if err != nil {
		return Target{}, Errorf(Malformed, StepDecode, "target_capability: version range %q: %v", versions, err)
	}
	return Target{Name: name, Range: c}, nil
}

// checkTarget is ParseTarget without its result, at a tenth of the price: what it accepts can be parsed.
func checkTarget(s string) error {
	name, versions, ranged := strings.Cut(s, "@")
	if err := CheckCapability("target_capability", name); err != nil {
		return err
	}
	if ranged && versions != "*" && !rangeForm(versions) {
		return Errorf(Malformed, StepDecode, "target_capability: version range %s of %s", quote(versions), name).
			WithHint("write %s@1.2.3, @^1.2, @~1.2, @>=1.2, @1.x or @*", name)
	}
	return nil
}

// rangeForm accepts one to three numbers with or without ^, ~ or >= before them, and one or two numbers followed by x.
func rangeForm(s string) bool {
	numbers := strings.TrimSuffix(s, ".x")
	limit := 2
	if len(numbers) == len(s) {
		limit = 3
		for _, operator := range [...]string{"^", "~", ">="} {
			if rest, found := strings.CutPrefix(s, operator); found {
				numbers = rest
				break
			}
		}
	}
	for more := true; more; limit-- {
		var number string
		number, numbers, more = strings.Cut(numbers, ".")
		if limit == 0 || !versionNumber(number) {
			return false
		}
	}
	return true
}

// versionNumber accepts 0 and up to nine digits without leading zero.
func versionNumber(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= 9 && (s[0] != '0' || len(s) == 1)
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
