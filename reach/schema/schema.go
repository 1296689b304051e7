package schema

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/agent-reach/agent-reach/envelope"
)

const maxPlaces = 32

// Schema is a compiled schema; nil accepts everything. It is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// ID is the SHA-256 sum of raw; zero for a schema that is absent or null.
func ID(raw []byte) envelope.SchemaID {
	if absent(raw) {
		return envelope.SchemaID{}
	}
	return sha256.Sum256(raw)
}

func absent(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

type refuse struct{}

func (refuse) Load(url string) (any, error) { return nil, errors.New("references are never fetched") }

// Compile checks and compiles a schema; nil for one that is absent or null.
func Compile(raw []byte) (*Schema, error) {
	if absent(raw) {
		return nil, nil
	}
	if len(raw) > envelope.MaxSchema {
		return nil, envelope.Errorf(envelope.TooLarge, envelope.StepRegister, "schema is %d bytes; the limit is %d", len(raw), envelope.MaxSchema)
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepRegister, "schema is not JSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(refuse{})
	if err := c.AddResource("mem://schema/", doc); err != nil {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepRegister, "schema: %v", err)
	}
	s, err := c.Compile("mem://schema/")
	if err != nil {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepRegister, "schema: %v", err)
	}
	return &Schema{s}, nil
}

// Check answers whether payload fits: nil, or a SchemaError that lists the places that do not.
func (s *Schema) Check(payload []byte) error {
	if s == nil {
		return nil
	}
	e := envelope.Errorf(envelope.SchemaError, envelope.StepCheck, "the payload does not fit the schema")
	doc, err := decode(payload)
	if err != nil {
		e.Places = []envelope.Place{{Text: fmt.Sprintf("is not JSON: %v", err)}}
		return e
	}
	err = s.compiled.Validate(doc)
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return nil
	}
	collect(v, &e.Places)
	if more := len(e.Places) - maxPlaces; more > 0 {
		e.Places = append(e.Places[:maxPlaces], envelope.Place{Text: fmt.Sprintf("and %d more", more)})
	}
	return e
}

func collect(v *jsonschema.ValidationError, places *[]envelope.Place) {
	if len(v.Causes) == 0 {
		text := v.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		*places = append(*places, envelope.Place{Pointer: pointer(v.InstanceLocation), Text: text})
	}
	for _, c := range v.Causes {
		collect(c, places)
	}
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}

func decode(b []byte) (any, error) {
	if err := valid(b); err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(b))
}

// valid reports bytes that are not JSON, duplicate names and bad UTF-8 included.
func valid(b []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if err := d.SkipValue(); err != nil {
		return err
	}
	if n := len(bytes.TrimSpace(b[d.InputOffset():])); n > 0 {
		return fmt.Errorf("%d bytes follow the value", n)
	}
	return nil
}
