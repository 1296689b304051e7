package node

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/agent-reach/agent-reach/envelope"
)

// document is a YAML file read strictly into a Go value: an unknown key, a key set twice and a value of the wrong type are
// mistakes, noted with their lines. Reading goes on after a mistake, so that one run tells them all.
type document struct {
	file     string
	root     reflect.Type
	lines    map[string]int // where each key of the file stands, by path: "node.role", "node.gossip_peers[1]"
	mistakes []mistake
}

type mistake struct {
	file string // empty: the command line
	line int    // 0: the file as a whole
	text string
}

// readYAML reads text into the struct that into points at. What the text does not mention, or gets wrong, keeps its value.
func readYAML(file string, text []byte, into any) *document {
	v := reflect.ValueOf(into).Elem()
	d := &document{file: file, root: v.Type(), lines: make(map[string]int)}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var n yaml.Node
	switch err := decoder.Decode(&n); {
	case errors.Is(err, io.EOF): // nothing but comments
		return d
	case err != nil:
		d.syntax(err)
		return d
	}
	d.value(n.Content[0], "", v)
	if err := decoder.Decode(&n); !errors.Is(err, io.EOF) {
		d.note(n.Line, "a second YAML document begins here; only one is read: join them")
	}
	return d
}

func (d *document) note(line int, format string, args ...any) {
	d.mistakes = append(d.mistakes, mistake{d.file, line, fmt.Sprintf(format, args...)})
}

// refuse notes a mistake in the value at path, which the file may or may not have set.
func (d *document) refuse(path, format string, args ...any) {
	d.note(d.lines[path], "%s: %s", path, fmt.Sprintf(format, args...))
}

func (d *document) set(path string) bool { return d.lines[path] > 0 }

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax notes the library's error, which is text only: "yaml: line 3: did not find expected key".
func (d *document) syntax(err error) {
	text := err.Error()
	line := 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	d.note(line, "not YAML: %s; look at the indentation and the quotes around this line", text)
}

func (d *document) value(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch v.Kind() {
	case reflect.Struct:
		d.section(n, path, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem())
	case reflect.Slice, reflect.Array:
		d.list(n, path, v)
	default:
		d.scalar(n, path, v)
	}
}

func (d *document) section(n *yaml.Node, path string, v reflect.Value) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.note(n.Line, "%s has to be a section with the keys %s", cmp.Or(path, "the file"), list(keysOf(v.Type())))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		field, known := fieldOf(v, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode || !known:
			d.unknown(key, path, v.Type())
		case d.set(at):
			d.note(key.Line, "%s is set on line %d already: keep one of the two", at, d.lines[at])
		default:
			d.lines[at] = key.Line
			d.value(value, at, field)
		}
	}
}

func (d *document) list(n *yaml.Node, path string, v reflect.Value) {
	switch {
	case isNull(n) && v.Kind() == reflect.Slice:
		return
	case n.Kind != yaml.SequenceNode:
		d.note(n.Line, "%s has to be a list: [a, b], or lines that begin with a dash", path)
		return
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	case v.Len() != len(n.Content):
		d.note(n.Line, "%s has %d values; it needs %d, such as %s", path, len(n.Content), v.Len(), example(v))
		return
	}
	for i, element := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.lines[at] = element.Line
		d.value(element, at, v.Index(i))
	}
}

func (d *document) scalar(n *yaml.Node, path string, v reflect.Value) {
	kind, fits := want(v.Kind(), n.ShortTag())
	if n.Kind != yaml.ScalarNode || !fits || n.Decode(v.Addr().Interface()) != nil {
		d.note(n.Line, "%s is %s; it has to be %s, such as %s", path, shown(n), kind, example(v))
	}
}

// want says what a value of this kind looks like, and whether one with this YAML tag can be it.
func want(k reflect.Kind, tag string) (kind string, fits bool) {
	switch k {
	case reflect.Bool:
		return "true or false", tag == "!!bool"
	case reflect.Int:
		return "a whole number", tag == "!!int"
	case reflect.Float64:
		return "a number", tag == "!!int" || tag == "!!float"
	case reflect.String:
		return "text in quotes", tag == "!!str"
	}
	panic("readYAML: no field of kind " + k.String())
}

// example shows the value that v has, which is the default as long as nothing was read into it.
func example(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(cmp.Or(v.String(), "name"))
	case reflect.Array:
		return strings.ReplaceAll(fmt.Sprint(v.Interface()), " ", ", ")
	}
	return fmt.Sprint(v.Interface())
}

func shown(n *yaml.Node) string {
	switch {
	case isNull(n):
		return "empty"
	case n.Kind == yaml.MappingNode:
		return "a section"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!str":
		return fmt.Sprintf("%.60q", n.Value)
	}
	return fmt.Sprintf("%.60s", strings.Trim(strconv.Quote(n.Value), `"`))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (d *document) unknown(key *yaml.Node, path string, t reflect.Type) {
	keys := keysOf(t)
	advice := "the keys here are " + list(keys)
	if near := nearest(key.Value, keys); near != "" {
		advice = fmt.Sprintf("did you mean %s?", near)
	} else if home := homeOf(d.root, "", key.Value); home != "" {
		advice = fmt.Sprintf("it belongs under %s", home)
	}
	d.note(key.Line, "%s: no such key; %s", join(path, printable(key.Value)), advice)
}

// homeOf is the section in which t has a key of that name.
func homeOf(t reflect.Type, path, name string) string {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if key == name && path != "" {
			return path
		}
		if f.Type.Kind() == reflect.Struct && key != "-" {
			if home := homeOf(f.Type, join(path, key), name); home != "" {
				return home
			}
		}
	}
	return ""
}

func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	i := slices.IndexFunc(reflect.VisibleFields(v.Type()), func(f reflect.StructField) bool {
		return key != "-" && f.Tag.Get("yaml") == key
	})
	if i < 0 {
		return reflect.Value{}, false
	}
	return v.Field(i), true
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func list(words []string) string { return strings.Join(words, ", ") }

// printable shows a word from a file so that it cannot act on a terminal.
func printable(s string) string {
	return strings.Trim(strconv.Quote(fmt.Sprintf("%.60s", s)), `"`)
}

// nearest is the word that s was meant to be; empty if none is within a third of its length in typing errors.
func nearest(s string, words []string) (best string) {
	if len(s) > 64 {
		return ""
	}
	least := max(len(s)/3, 1) + 1
	for _, w := range words {
		if n := typos(s, w); n < least {
			best, least = w, n
		}
	}
	return best
}

// typos is the Levenshtein distance: letters to insert, delete or replace.
func typos(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// err joins the mistakes, in the order of their lines, to one error; nil if there are none.
func mistakesError(what string, mistakes []mistake) error {
	if len(mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	text := mistakes[0].String()
	if len(mistakes) > 1 {
		text = fmt.Sprintf("%s has %d mistakes", what, len(mistakes))
		for _, m := range mistakes {
			text += "\n  " + m.String()
		}
	}
	return envelope.Errorf(envelope.Malformed, envelope.StepConfig, "%s", text)
}

// String is file:line: text, as editors and terminals link it.
func (m mistake) String() string {
	switch {
	case m.file == "":
		return m.text
	case m.line == 0:
		return m.file + ": " + m.text
	}
	return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.text)
}
