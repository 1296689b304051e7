package schema

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	flawed "github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/agent-reach/agent-reach/envelope"
)

// noLoader keeps the library from reading references from disk, which it does by default.
type noLoader struct{}

var errNoLoader = errors.New("references are never fetched")

func (noLoader) Load(string) (any, error) { return nil, errNoLoader }

func refusal(format string, args ...any) *envelope.Error {
	return envelope.Errorf(envelope.Malformed, envelope.StepRegister, "schema "+format, args...)
}

// explainRefusal turns the library's error into ours. t is the schema.
func explainRefusal(err error, t *tree) error {
	switch err := err.(type) {
	case *envelope.Error:
		return err
	case *jsonschema.SchemaValidationError:
		return invalidSchema(err)
	case *jsonschema.LoadURLError:
		return t.outsideReference(err.URL)
	case *jsonschema.AnchorNotFoundError:
		return t.deadReference(err.Reference)
	case *jsonschema.JSONPointerNotFoundError:
		return t.deadReference(err.URL)
	case *jsonschema.InvalidJsonPointerError:
		return t.deadReference(err.URL)
	case *jsonschema.DuplicateIDError:
		return refusal("at %s and %s have the same $id %s", quote(err.Ptr1), quote(err.Ptr2), quote(err.ID))
	case *jsonschema.DuplicateAnchorError:
		return refusal("at %s and %s have the same anchor %s", quote(err.Ptr1), quote(err.Ptr2), quote(err.Anchor))
	case *jsonschema.InvalidMetaSchemaURLError:
		return refusal("at %s has a $schema that is no URI", quote(placeOf(err.URL)))
	case *jsonschema.ParseIDError:
		return refusal("at %s has an $id that is no URI", quote(placeOf(err.URL)))
	}
	return refusal("cannot be compiled: %s", strings.ReplaceAll(err.Error(), location, ""))
}

// outsideReference blames the member that made the library ask for a URL.
func (t *tree) outsideReference(target string) error {
	at := t.blame(func(name, text string) bool {
		file, _, _ := strings.Cut(text, "#")
		return file != "" && strings.HasSuffix(target, strings.TrimLeft(file, "./"))
	})
	if at >= 0 && string(t.name(at)) == "$schema" {
		return refusal("at %s: the dialect %s is not known here; leave it out for 2020-12", t.where(at), quote(target)).
			WithHint("known are 2020-12, 2019-09, draft-07, draft-06 and draft-04 of json-schema.org")
	}
	return refusal("at %s: refers to %s, outside of it; references are never fetched", t.where(at), quote(target)).
		WithHint("put what it names into the schema itself, as #/$defs/NAME")
}

// deadReference blames the reference that leads nowhere within the schema.
func (t *tree) deadReference(target string) error {
	_, fragment, _ := strings.Cut(target, "#")
	fragment = unescapePath(fragment)
	at := t.blame(func(name, text string) bool {
		_, f, ok := strings.Cut(text, "#")
		return ok && isReference(name) && unescapePath(f) == fragment
	})
	return refusal("at %s: refers to %s, which is not there", t.where(at), quote("#"+fragment))
}

func unescapePath(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// blame finds the first reference or $schema that guilty holds of, -1 if there is none.
func (t *tree) blame(guilty func(name, text string) bool) int32 {
	for v := range int32(len(t.values)) {
		name := string(t.name(v))
		if t.values[v].kind == text && (isReference(name) || name == "$schema") && guilty(name, string(t.text(v))) {
			return v
		}
	}
	return -1
}

func (t *tree) where(v int32) string {
	if v < 0 {
		return "some place"
	}
	p, _ := t.pointer(v)
	return quote(p)
}

// invalidSchema lists the places where a schema is none.
func invalidSchema(err *jsonschema.SchemaValidationError) error {
	var root *jsonschema.ValidationError
	if !errors.As(err.Err, &root) {
		return refusal("is not valid: %v", err.Err)
	}
	_, base, _ := strings.Cut(err.URL, "#")
	l := &flaws{base: unescapePath(base)}
	l.collect(root)
	return refusal("%s", strings.Join(l.sentences(), "; "))
}

// flaws are the places where the metaschema does not hold, each with a sentence, in the order found.
type flaws struct {
	base  string
	at    []string
	texts map[string]string
}

func (l *flaws) collect(e *jsonschema.ValidationError) {
	if _, name := e.ErrorKind.(*flawed.PropertyNames); name || len(e.Causes) == 0 {
		l.add(e)
		return
	}
	for _, cause := range e.Causes {
		l.collect(cause)
	}
}

func (l *flaws) add(e *jsonschema.ValidationError) {
	p := l.base
	for _, token := range e.InstanceLocation {
		p += "/" + escapeToken(token)
	}
	if l.texts == nil {
		l.texts = map[string]string{}
	}
	if _, ok := l.texts[p]; ok {
		return
	}
	l.at = append(l.at, p)
	l.texts[p] = flawText(e, p)
}

// flawText says what would be right, where that is known, else what is wrong.
func flawText(e *jsonschema.ValidationError, p string) string {
	reason := e
	for len(reason.Causes) > 0 {
		reason = reason.Causes[0]
	}
	if f, ok := reason.ErrorKind.(*flawed.Format); ok && f.Want == "regex" {
		return f.Err.Error()
	}
	if right := rightFor(strings.Split(p, "/")[1:]); right != "" {
		return "must be " + right
	}
	return cut(reason.ErrorKind.LocalizedString(message.NewPrinter(language.English)), 160)
}

func (l *flaws) sentences() []string {
	var out []string
	for _, p := range l.at[:min(len(l.at), 8)] {
		out = append(out, fmt.Sprintf("at %s: %s", quote(p), l.texts[p]))
	}
	if more := len(l.at) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// What a keyword's value must be.
const (
	aSchema  = "a schema: an object, true or false"
	schemas  = "an object of schemas by name"
	aList    = "a list of at least one schema"
	aCount   = "a whole number, 0 or more"
	aNumber  = "a number"
	aBoolean = "true or false"
	aString  = "a string"
)

var rightValues = map[string]string{
	"type":       `"array", "boolean", "integer", "null", "number", "object", "string" or a list of these`,
	"properties": schemas, "patternProperties": schemas, "$defs": schemas, "definitions": schemas, "dependentSchemas": schemas,
	"allOf": aList, "anyOf": aList, "oneOf": aList, "prefixItems": aList,
	"items":                aSchema + " (a list of them is prefixItems)",
	"additionalProperties": aSchema, "propertyNames": aSchema, "contains": aSchema, "not": aSchema, "if": aSchema,
	"then": aSchema, "else": aSchema, "unevaluatedItems": aSchema, "unevaluatedProperties": aSchema,
	"minLength": aCount, "maxLength": aCount, "minItems": aCount, "maxItems": aCount, "minProperties": aCount,
	"maxProperties": aCount, "minContains": aCount, "maxContains": aCount,
	"minimum": aNumber, "maximum": aNumber, "exclusiveMinimum": aNumber, "exclusiveMaximum": aNumber,
	"multipleOf": "a number above 0", "uniqueItems": aBoolean,
	"required": "a list of different strings", "dependentRequired": "an object of lists of different strings",
	"enum": "a list of values", "pattern": aString, "format": aString, "title": aString, "description": aString,
}

// rightFor finds what the value at a path of a schema must be: a keyword's value, or a subschema.
func rightFor(path []string) string {
	for len(path) > 0 {
		keyword := path[0]
		if len(path) == 1 {
			return rightValues[keyword]
		}
		switch rightValues[keyword] {
		case schemas, aList:
			path = path[2:]
		case aSchema, rightValues["items"]:
			path = path[1:]
		default:
			return rightValues[keyword]
		}
	}
	return aSchema
}
