package schema

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// survey decodes a schema and refuses what must not get to the library.
func survey(raw []byte) (*tree, error) {
	if len(raw) > envelope.MaxSchema {
		return nil, envelope.Errorf(envelope.TooLarge, envelope.StepRegister,
			"schema is %d bytes; the limit is %d", len(raw), envelope.MaxSchema)
	}
	t := &tree{}
	var d jsontext.Decoder
	d.Reset(bytes.NewBuffer(raw))
	if err := t.decode(&d, raw, limits{maxSchemaValues, maxSchemaDepth}); err != nil {
		return nil, surveyError(err)
	}
	switch t.values[0].kind {
	case object, boolFalse, boolTrue:
	default:
		return nil, refusal("has the type %s; it must be an object, true or false", kindNames[t.values[0].kind])
	}
	return t, t.surveyMembers()
}

func surveyError(err *syntaxError) error {
	where := ""
	if err.at != "" {
		where = fmt.Sprintf("at %q: ", err.at)
	}
	if err.large {
		return envelope.Errorf(envelope.TooLarge, envelope.StepRegister, "schema %s%s", where, err.reason)
	}
	return refusal("%sis not JSON: %s", where, err.reason)
}

// surveyMembers looks at every member of every object, whether the library will take it for a keyword or not.
func (t *tree) surveyMembers() error {
	references := 0
	for v := range int32(len(t.values)) {
		switch w := &t.values[v]; w.kind {
		case number:
			if isCount(string(t.name(v))) && parseDecimal(t.text(v)).compare(maxCount) > 0 {
				p, _ := t.pointer(v)
				return refusal("at %q: %s is too large; the most is %s", p, t.text(v), maxCount)
			}
		case text:
			if isReference(string(t.name(v))) {
				references++
			}
		}
	}
	if references > maxReferences {
		return envelope.Errorf(envelope.TooLarge, envelope.StepRegister,
			"schema has %d references; the limit is %d", references, maxReferences)
	}
	return nil
}

// maxCount is the largest whole number that every JSON reader holds exactly. Beyond 64 bits the library would drop digits.
var maxCount = decimal{digits: "9007199254740991", exp: 16}

func isCount(name string) bool {
	switch name {
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		return true
	}
	return false
}

func isReference(name string) bool {
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		return true
	}
	return false
}
