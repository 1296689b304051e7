package schema

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// kind is a JSON value's kind; the two booleans are two kinds.
type kind uint8

const (
	null kind = iota
	boolFalse
	boolTrue
	number
	text
	array
	object
	kinds = iota
)

var kindNames = [kinds]string{"null", "boolean", "boolean", "number", "string", "array", "object"}

// value is one JSON value of a tree. Offsets are into the tree's source, or into its unquoted text where the flag says so.
type value struct {
	kind         kind
	unquoted     bool // start and end are into tree.extra
	nameUnquoted bool
	start, end   uint32 // a number or string without its quotes
	name, nameTo uint32 // the member's name, if the parent is an object
	next         int32  // index of the first value after this one and all below it
	count        int32  // members or items
}

// tree is a decoded JSON text: its values in the order of the text, so that what is below values[i] stands at i+1 … next-1.
// The zero tree is empty. It holds the source.
type tree struct {
	src    []byte
	extra  []byte // strings that had escapes
	values []value
	open   []int32 // while decoding: the containers not closed yet
}

// limits bound a tree. Each is inclusive.
type limits struct {
	values int // 0: no limit
	depth  int
}

// Numbers outside these are refused: few readers can hold them, and in some they take the machine down.
const (
	maxNumber   = 1000 // characters
	maxExponent = 1000 // either sign
)

// syntaxError says why a text is no JSON, or none that is accepted. at is a JSON Pointer, empty where it is not known.
type syntaxError struct {
	at, reason string
	large      bool // a limit, not a mistake
}

func (e *syntaxError) Error() string { return e.reason }

// decode replaces the tree by that of src, one JSON value in UTF-8 in which no object has a name twice. d reads src from its
// beginning.
func (t *tree) decode(d *jsontext.Decoder, src []byte, max limits) *syntaxError {
	t.src, t.extra, t.values, t.open = src, t.extra[:0], t.values[:0], t.open[:0]
	for {
		if err := t.token(d, max); err != nil {
			return err
		}
		if len(t.open) == 0 {
			break
		}
	}
	return trailing(src[d.InputOffset():])
}

func trailing(rest []byte) *syntaxError {
	if n := len(bytes.Trim(rest, " \t\r\n")); n > 0 {
		return &syntaxError{reason: fmt.Sprintf("%d bytes follow the JSON value", n)}
	}
	return nil
}

func (t *tree) token(d *jsontext.Decoder, max limits) *syntaxError {
	switch d.PeekKind() {
	case ']', '}':
		if _, err := d.ReadToken(); err != nil {
			return notSyntax(err)
		}
		t.close()
		return nil
	}
	if max.values > 0 && len(t.values) >= max.values {
		return &syntaxError{reason: fmt.Sprintf("has more than %d values", max.values), large: true}
	}
	v := value{next: int32(len(t.values)) + 1}
	if t.inObject() {
		if err := t.readName(d, &v); err != nil {
			return err
		}
	}
	return t.readValue(d, v, max)
}

func (t *tree) inObject() bool {
	return len(t.open) > 0 && t.values[t.open[len(t.open)-1]].kind == object
}

func (t *tree) close() {
	last := len(t.open) - 1
	t.values[t.open[last]].next = int32(len(t.values))
	t.open = t.open[:last]
}

func (t *tree) readName(d *jsontext.Decoder, v *value) *syntaxError {
	raw, err := d.ReadValue()
	if err != nil {
		return notSyntax(err)
	}
	v.name, v.nameTo, v.nameUnquoted = t.unquote(d, raw)
	return nil
}

// unquote returns where the text of the string just read stands, and whether that is in t.extra.
func (t *tree) unquote(d *jsontext.Decoder, raw jsontext.Value) (from, to uint32, extra bool) {
	if bytes.IndexByte(raw, '\\') < 0 {
		end := uint32(d.InputOffset())
		return end - uint32(len(raw)) + 1, end - 1, false
	}
	from = uint32(len(t.extra))
	t.extra, _ = jsontext.AppendUnquote(t.extra, raw) // the decoder has checked it
	return from, uint32(len(t.extra)), true
}

func (t *tree) readValue(d *jsontext.Decoder, v value, max limits) *syntaxError {
	if len(t.open) > 0 {
		t.values[t.open[len(t.open)-1]].count++
	}
	switch d.PeekKind() {
	case '[', '{':
		tok, err := d.ReadToken()
		if err != nil {
			return notSyntax(err)
		}
		if len(t.open) >= max.depth {
			return &syntaxError{reason: fmt.Sprintf("is nested deeper than %d levels", max.depth), large: true}
		}
		v.kind = array
		if tok.Kind() == '{' {
			v.kind = object
		}
		t.open = append(t.open, int32(len(t.values)))
	default:
		raw, err := d.ReadValue()
		if err != nil {
			return notSyntax(err)
		}
		if err := t.scalar(d, raw, &v); err != nil {
			return err
		}
	}
	if len(t.values) == cap(t.values) {
		t.values = slices.Grow(t.values, len(t.values)+16) // twice as many: large payloads are not copied often
	}
	t.values = append(t.values, v)
	return nil
}

func (t *tree) scalar(d *jsontext.Decoder, raw jsontext.Value, v *value) *syntaxError {
	switch raw.Kind() {
	case 'n':
		v.kind = null
	case 'f':
		v.kind = boolFalse
	case 't':
		v.kind = boolTrue
	case '"':
		v.kind = text
		v.start, v.end, v.unquoted = t.unquote(d, raw)
	default:
		v.kind = number
		v.end = uint32(d.InputOffset())
		v.start = v.end - uint32(len(raw))
		if reason := refuseNumber(raw); reason != "" {
			return &syntaxError{at: string(d.StackPointer()), reason: reason, large: true}
		}
	}
	return nil
}

// notSyntax turns a decoder's error, whose text names the place, into ours.
func notSyntax(err error) *syntaxError {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &syntaxError{reason: "the text ends too early"}
	}
	return &syntaxError{reason: strings.TrimPrefix(err.Error(), "jsontext: ")}
}

// text is a string's or number's text.
func (t *tree) text(v int32) []byte {
	if w := &t.values[v]; w.unquoted {
		return t.extra[w.start:w.end]
	} else {
		return t.src[w.start:w.end]
	}
}

// name is the member name of v, whose parent is an object.
func (t *tree) name(v int32) []byte {
	if w := &t.values[v]; w.nameUnquoted {
		return t.extra[w.name:w.nameTo]
	} else {
		return t.src[w.name:w.nameTo]
	}
}

// member finds the value under name in an object, -1 if there is none, in time linear in the members.
func (t *tree) member(obj int32, name string) int32 {
	if t.values[obj].kind != object {
		return -1
	}
	end := t.values[obj].next
	for v := obj + 1; v < end; v = t.values[v].next {
		if string(t.name(v)) == name {
			return v
		}
	}
	return -1
}
