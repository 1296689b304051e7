package envelope

import (
	"fmt"
	"strings"
)

// MaxID is the longest id or name, in bytes.
const MaxID = 128

// CheckAgentID accepts [A-Za-z0-9][A-Za-z0-9._-]{0,127}, the alphabet of agent and node ids. The error names the first character
// outside it by its code point, since look-alikes cannot be told by eye.
func CheckAgentID(field, id string) error {
	return checkAlphabet(field, id, func(c byte, first bool) bool {
		return isLower(c) || isDigit(c) || 'A' <= c && c <= 'Z' || !first && strings.IndexByte("._-", c) >= 0
	}, "letters, digits, '.', '_' and '-', the first a letter or digit")
}

// CheckCapability accepts [a-z0-9][a-z0-9._:-]{0,127}.
func CheckCapability(field, name string) error {
	return checkAlphabet(field, name, func(c byte, first bool) bool {
		return isLower(c) || isDigit(c) || !first && strings.IndexByte("._:-", c) >= 0
	}, "small letters, digits, '.', '_', ':' and '-', the first a letter or digit")
}

// CheckToken accepts 1–128 printable ASCII characters without space: msg_id, trace_id and their like.
func CheckToken(field, s string) error {
	return checkAlphabet(field, s, func(c byte, _ bool) bool { return '!' <= c && c <= '~' },
		"printable ASCII characters without space")
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func checkAlphabet(field, s string, ok func(c byte, first bool) bool, allowed string) error {
	if s == "" {
		return Errorf(Malformed, StepDecode, "%s is empty", field).WithHint("1 to %d of: %s", MaxID, allowed)
	}
	if len(s) > MaxID {
		return Errorf(Malformed, StepDecode, "%s is %d bytes long; the limit is %d", field, len(s), MaxID)
	}
	for i := range len(s) {
		if !ok(s[i], i == 0) {
			return Errorf(Malformed, StepDecode, "%s has %s at byte %d", field, describeRune(s[i:]), i).
				WithHint("allowed are %s", allowed)
		}
	}
	return nil
}

// describeRune names the first character of s without letting it act on a terminal: U+0430 and '\u202e', not the glyph.
func describeRune(s string) string {
	for _, r := range s {
		return fmt.Sprintf("the character %+q (%U)", r, r)
	}
	return "nothing"
}
