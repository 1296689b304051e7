package envelope

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// quote writes a foreign string for an error's text: in ASCII, where no look-alike, control or direction mark can act on
// its reader, and cut to a bearable length.
func quote(s string) string {
	const limit = 128
	if len(s) > limit {
		return strconv.QuoteToASCII(s[:limit]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// jsonReason turns the library's error into what the sender needs: where, what stands there, what would be right.
func jsonReason(err error) string {
	var bad *json.SemanticError
	if !errors.As(err, &bad) {
		return strings.TrimPrefix(err.Error(), "jsontext: ")
	}
	if bad.JSONPointer == "" {
		return semanticReason(bad)
	}
	return quote(string(bad.JSONPointer)) + ": " + semanticReason(bad)
}

func semanticReason(bad *json.SemanticError) string {
	var own *Error
	switch {
	case errors.As(bad.Err, &own):
		return own.Text
	case errors.Is(bad.Err, json.ErrUnknownName):
		return "no member of that name is known here"
	case bad.GoType == nil || bad.Err != nil && bad.GoType.Kind() != reflect.Int:
		return strings.TrimPrefix(fmt.Sprint(bad.Err), "jsontext: ")
	}
	return fmt.Sprintf("%s where %s is wanted", kindFound(bad.JSONKind, bad.JSONValue), kindWanted(bad.GoType))
}

func kindFound(kind jsontext.Kind, value jsontext.Value) string {
	switch kind {
	case '0':
		if len(value) > 0 {
			return "the number " + quote(string(value))
		}
		return "a number"
	case '"':
		return "a string"
	case '{', '}':
		return "an object"
	case '[', ']':
		return "an array"
	}
	return kind.String()
}

func kindWanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
