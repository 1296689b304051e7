package node

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"gopkg.in/yaml.v3"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	maxValues = 100_000 // of a descriptor file, aliases followed
	maxNested = 100
)

// ReadDescriptor reads a descriptor from a YAML or JSON file: what an operator attaches in the name of an agent without a key.
func ReadDescriptor(path string) (*envelope.Descriptor, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, unreadable(envelope.StepRegister, "descriptor", err).WithHint("agent-reach attach --help shows one")
	}
	return parseDescriptor(path, text)
}

func parseDescriptor(file string, text []byte) (*envelope.Descriptor, error) {
	doc := text
	if !jsontext.Value(text).IsValid() {
		var mistakes []mistake
		if doc, mistakes = toJSON(file, text); len(mistakes) > 0 {
			return nil, mistakesError(file, mistakes)
		}
	}
	d, err := envelope.DecodeDescriptor(doc)
	if err != nil {
		e := *envelope.AsError(err)
		e.Text = file + ": " + e.Text
		return nil, &e
	}
	return d, nil
}

// toJSON writes a YAML document as JSON.
func toJSON(file string, text []byte) ([]byte, []mistake) {
	d := &document{file: file}
	var n yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&n); err != nil {
		d.syntax(err)
		return nil, d.mistakes
	}
	var out bytes.Buffer
	w := &jsonWriter{out: jsontext.NewEncoder(&out), left: maxValues}
	if line, err := w.value(n.Content[0], maxNested); err != nil {
		d.note(line, "%v", err)
	}
	return out.Bytes(), d.mistakes
}

// jsonWriter writes YAML nodes as JSON. Its methods return the line of the node that could not be written.
type jsonWriter struct {
	out  *jsontext.Encoder
	left int // values that may still be written: an alias can stand for many
}

func (w *jsonWriter) value(n *yaml.Node, depth int) (line int, err error) {
	if w.left--; w.left < 0 || depth == 0 {
		return n.Line, fmt.Errorf("more than %d values, or nested deeper than %d", maxValues, maxNested)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(n.Alias, depth-1)
	case yaml.MappingNode:
		return w.all(n, jsontext.BeginObject, jsontext.EndObject, depth)
	case yaml.SequenceNode:
		return w.all(n, jsontext.BeginArray, jsontext.EndArray, depth)
	}
	return n.Line, w.scalar(n)
}

func (w *jsonWriter) all(n *yaml.Node, begin, end jsontext.Token, depth int) (line int, err error) {
	if err := w.out.WriteToken(begin); err != nil {
		return n.Line, err
	}
	for i, element := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			line, err = element.Line, w.key(element)
		} else {
			line, err = w.value(element, depth-1)
		}
		if err != nil {
			return line, err
		}
	}
	return n.Line, w.out.WriteToken(end)
}

func (w *jsonWriter) key(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("a key has to be a word")
	}
	if err := w.out.WriteToken(jsontext.String(n.Value)); err != nil {
		return fmt.Errorf("key %q is there twice", n.Value)
	}
	return nil
}

func (w *jsonWriter) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		return w.out.WriteToken(jsontext.Null)
	case "!!bool":
		return w.out.WriteToken(jsontext.Bool(strings.EqualFold(n.Value, "true")))
	case "!!int", "!!float":
		return w.number(n)
	}
	return w.out.WriteToken(jsontext.String(n.Value))
}

// number keeps the digits as they are written where JSON writes them so too.
func (w *jsonWriter) number(n *yaml.Node) error {
	if v := jsontext.Value(n.Value); v.Kind() == '0' && v.IsValid() {
		return w.out.WriteValue(v)
	}
	var f float64
	if err := n.Decode(&f); err != nil {
		return fmt.Errorf("%q is no number", n.Value)
	}
	return w.out.WriteToken(jsontext.Float(f))
}
