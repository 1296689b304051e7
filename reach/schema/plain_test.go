package schema_test

import (
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plainRegexp is what maker's patterns need of ECMA-262.
func plainRegexp(expr string) (jsonschema.Regexp, error) {
	return regexp.Compile(strings.ReplaceAll(expr, `\u0061`, "a"))
}
