package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of regular expressions. Matching costs, at worst, the size times the bytes of the string.
const (
	maxPattern      = 4096   // bytes of one
	maxPatternSize  = 10_000 // of one, see patternSize
	maxPatternSizes = 50_000 // of all in a schema
	maxRanges       = 50_000 // of all character classes in a schema: \p{L} has some 700
)

// pattern is a regular expression of a schema, in Go's syntax (RE2), which never backtracks.
type pattern struct {
	re   *regexp.Regexp
	size int // steps per byte of text, at worst
}

func (p *pattern) String() string            { return p.re.String() }
func (p *pattern) MatchString(s string) bool { return p.re.MatchString(s) }

// patterns compiles the regular expressions of one schema, each once.
type patterns struct {
	known  map[string]*pattern
	size   int
	ranges int
}

// compile is a jsonschema.RegexpEngine.
func (ps *patterns) compile(expr string) (jsonschema.Regexp, error) {
	if p := ps.known[expr]; p != nil {
		return p, nil
	}
	translated := translate(expr)
	size, ranges, err := patternSize(translated)
	if err != nil {
		return nil, err
	}
	if ps.size += size; ps.size > maxPatternSizes {
		return nil, fmt.Errorf("all patterns together have more than %d steps with their repetitions written out", maxPatternSizes)
	}
	if ps.ranges += ranges; ps.ranges > maxRanges {
		return nil, fmt.Errorf("the character classes of all patterns together have more than %d ranges", maxRanges)
	}
	re, err := regexp.Compile(translated)
	if err != nil {
		return nil, err
	}
	p := &pattern{re, size}
	ps.known[expr] = p
	return p, nil
}

// patternSize bounds the instructions of the compiled expression, each repetition {n} written out n times, without
// compiling it. ranges are those of its character classes.
func patternSize(expr string) (size, ranges int, err error) {
	if len(expr) > maxPattern {
		return 0, 0, fmt.Errorf("the pattern is %d bytes; the limit is %d", len(expr), maxPattern)
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, 0, patternError(err)
	}
	size = instructions(tree)
	if size > maxPatternSize {
		return 0, 0, fmt.Errorf("the pattern has %d steps with its repetitions written out; the limit is %d", size, maxPatternSize)
	}
	return size, classRanges(tree), nil
}

func classRanges(re *syntax.Regexp) (n int) {
	if re.Op == syntax.OpCharClass {
		n = len(re.Rune) / 2
	}
	for _, sub := range re.Sub {
		n += classRanges(sub)
	}
	return n
}

func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	if re.Op == syntax.OpCharClass {
		n = 2 // a binary search in its ranges
	}
	for _, sub := range re.Sub {
		n = min(n+instructions(sub), 1<<30)
	}
	if re.Op == syntax.OpRepeat {
		n = min((n-1)*max(re.Min, re.Max, 1)+1, 1<<30)
	}
	return n
}

// patternError says what Go's syntax lacks of ECMA-262's.
func patternError(err error) error {
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return err
	}
	if bad.Code == syntax.ErrInvalidPerlOp || bad.Code == syntax.ErrMissingRepeatArgument {
		return fmt.Errorf("the pattern has %q: patterns are RE2, without lookaround and backreferences", cut(bad.Expr, 32))
	}
	return fmt.Errorf("the pattern cannot be read: %s: %q", bad.Code, cut(bad.Expr, 32))
}

// translate writes ECMA-262's \uXXXX and \u{X…} as RE2's \x{X…}; all else is the same where both have it.
func translate(expr string) string {
	if !strings.Contains(expr, `\u`) {
		return expr
	}
	var b strings.Builder
	for i := 0; i < len(expr); i++ {
		if expr[i] != '\\' || i+1 == len(expr) {
			b.WriteByte(expr[i])
			continue
		}
		code, skip := codePoint(expr[i+1:])
		if skip == 0 {
			code, skip = expr[i+1:i+2], 1
		}
		b.WriteString(`\` + code)
		i += skip
	}
	return b.String()
}

// codePoint reads uXXXX or u{X…} at the start of s and returns it for RE2, with its length in s; 0: it is something else.
func codePoint(s string) (code string, length int) {
	if !strings.HasPrefix(s, "u") {
		return "", 0
	}
	if strings.HasPrefix(s, "u{") {
		if end := strings.IndexByte(s, '}'); end > 0 {
			return "x" + s[1:end+1], end + 1
		}
		return "", 0
	}
	if len(s) >= 5 && strings.Trim(s[1:5], "0123456789abcdefABCDEF") == "" {
		return "x{" + s[1:5] + "}", 5
	}
	return "", 0
}
