package schema

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agent-reach/agent-reach/envelope"
)

// Limits of a schema, besides envelope.MaxSchema.
const (
	maxSchemaValues = 4096 // JSON values in it
	maxSchemaDepth  = 64   // levels of JSON
	maxReferences   = 1024
)

// Schema is a compiled schema. A nil *Schema accepts everything. It is immutable and safe for concurrent use.
type Schema struct {
	root     *rule
	checkers sync.Pool // of *checker
}

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

// Compile checks and compiles a schema; nil for one that is absent or null. Without $schema it is read as 2020-12.
//
// Errors: Malformed and TooLarge, which name the place as a JSON Pointer.
func Compile(raw []byte) (*Schema, error) {
	if absent(raw) {
		return nil, nil
	}
	t, err := survey(raw)
	if err != nil {
		return nil, err
	}
	root, err := compile(raw, t)
	if err != nil {
		return nil, err
	}
	return &Schema{root: root}, nil
}

// compile lets the library resolve what survey has found bearable.
func compile(raw []byte, t *tree) (root *rule, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, refusal("makes the compiler panic: %v", p)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, refusal("is not JSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine((&patterns{known: map[string]*pattern{}}).compile)
	if err := c.AddResource(location, doc); err != nil {
		return nil, refusal("%v", err)
	}
	s, err := c.Compile(location)
	if err != nil {
		return nil, explainRefusal(err, t)
	}
	b := &builder{compiler: c, doc: doc, rules: map[*jsonschema.Schema]*rule{}}
	root, err = b.graph(s)
	if err != nil {
		return nil, explainRefusal(err, t)
	}
	return root, b.finish(root)
}

// Check answers whether payload fits. Zero bytes are no JSON, and fit only a nil Schema.
//
// Errors: SchemaError, with the places that do not fit; TooLarge if finding out takes too long.
func (s *Schema) Check(payload []byte) (err error) {
	if s == nil {
		return nil
	}
	c, ok := s.checkers.Get().(*checker)
	if !ok {
		c = &checker{root: s.root}
	}
	defer func() {
		if p := recover(); p != nil { // c is not used again
			err = envelope.Errorf(envelope.SchemaError, envelope.StepCheck, "checking the payload made the checker panic: %v", p)
		}
	}()
	err = c.check(payload)
	if c.reset() {
		s.checkers.Put(c)
	}
	return err
}
