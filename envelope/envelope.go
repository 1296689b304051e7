package envelope

import (
	"bytes"
	"encoding/binary"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// DefaultMaxPayload is the payload limit where the administrator set none, in bytes.
const DefaultMaxPayload = 4 << 20

// Overhead bounds what an encoded envelope of either form adds to its payload, in bytes.
const Overhead = MaxHeader + 2048

// Envelope is one message: what was said (RawHeader and Payload, byte for byte as signed), what it means (Header) and the
// proof (Seal). It is immutable once made, and may be shared between goroutines.
type Envelope struct {
	Header    Header
	RawHeader []byte
	Payload   []byte
	Seal      *Seal // nil: unsealed
}

// New encodes h and joins it with payload, which it keeps. The envelope is unsealed.
func New(h Header, payload []byte) (*Envelope, error) {
	if h.Version == "" {
		h.Version = Version
	}
	raw, err := json.Marshal(&h)
	if err != nil {
		return nil, Errorf(Malformed, StepDecode, "header: %s", jsonReason(err))
	}
	h, err = decodeHeader(raw)
	if err != nil {
		return nil, err
	}
	return &Envelope{Header: h, RawHeader: raw, Payload: payload}, nil
}

// Document is the JSON form of an envelope with the ticket that may go with it.
type Document struct {
	Envelope jsontext.Value `json:"envelope"`
	Payload  jsontext.Value `json:"payload,omitzero"`
	Seal     *sealJSON      `json:"seal,omitzero"`
	Ticket   jsontext.Value `json:"ticket,omitzero"`
}

// Decode reads the JSON form; the ticket is nil unless the document carries one. maxPayload is in bytes. The envelope holds
// parts of doc.
//
// Errors: Malformed, TooLarge, Unsupported, Loop (chain too long).
func Decode(doc []byte, maxPayload int) (e *Envelope, ticket []byte, err error) {
	if len(doc)-Overhead-MaxTicket > maxPayload {
		return nil, nil, Errorf(TooLarge, StepDecode, "document is %d bytes; the payload limit is %d", len(doc), maxPayload).WithHint(largeHint)
	}
	var d Document
	if err := json.Unmarshal(doc, &d, json.RejectUnknownMembers(true)); err != nil {
		return nil, nil, Errorf(Malformed, StepDecode, "document: %s", jsonReason(err)).
			WithHint(documentHint)
	}
	if d.Envelope == nil {
		return nil, nil, Errorf(Malformed, StepDecode, `document has no "envelope"`).WithHint(documentHint)
	}
	seal, err := d.Seal.seal()
	if err != nil {
		return nil, nil, hinted(err, sealHint)
	}
	e, err = assemble(d.Envelope, d.Payload, seal, maxPayload)
	if err != nil {
		return nil, nil, err
	}
	if d.Ticket.Kind() == 'n' {
		d.Ticket = nil
	}
	return e, d.Ticket, nil
}

// AppendDocument appends e's JSON form to dst; ticket may be nil. A payload that is not JSON, or has white space around it
// that the document would lose, cannot be written so: the error is Malformed.
func (e *Envelope) AppendDocument(dst, ticket []byte) ([]byte, error) {
	if err := checkJSONPayload(e.Payload); err != nil {
		return nil, err
	}
	dst = append(dst, `{"envelope":`...)
	dst = append(dst, e.RawHeader...)
	if len(e.Payload) > 0 {
		dst = append(dst, `,"payload":`...)
		dst = append(dst, e.Payload...)
	}
	if e.Seal != nil {
		dst = append(dst, `,"seal":`...)
		dst = e.Seal.appendJSON(dst)
	}
	if ticket != nil {
		dst = append(dst, `,"ticket":`...)
		dst = append(dst, ticket...)
	}
	return append(dst, '}'), nil
}

func checkJSONPayload(p []byte) error {
	switch {
	case len(p) == 0:
		return nil
	case len(bytes.Trim(p, " \t\r\n")) < len(p):
		return Errorf(Malformed, StepDecode, "payload has white space around it, which is sealed but would be lost in a JSON document").
			WithHint("trim it before sealing")
	case !jsontext.Value(p).IsValid():
		return Errorf(Malformed, StepDecode, "payload is not JSON and so cannot stand in a JSON document")
	}
	return nil
}

// DecodeBinary reads the form that links carry. The envelope holds parts of b.
func DecodeBinary(b []byte, maxPayload int) (*Envelope, error) {
	if len(b) < 4 {
		return nil, Errorf(Malformed, StepDecode, "envelope of %d bytes is cut short", len(b))
	}
	header, seal := int(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:]))
	rest := b[4:]
	if len(rest) < header+seal {
		return nil, Errorf(Malformed, StepDecode, "envelope is cut short: header %d + seal %d bytes announced, %d there", header, seal, len(rest))
	}
	s, err := decodeSeal(rest[header : header+seal])
	if err != nil {
		return nil, err
	}
	return assemble(rest[:header:header], rest[header+seal:], s, maxPayload)
}

// BinarySize is the length of what AppendBinary appends, in bytes.
func (e *Envelope) BinarySize() int {
	return 4 + len(e.RawHeader) + e.Seal.binarySize() + len(e.Payload)
}

// AppendBinary appends the form that links carry to dst. What DecodeBinary accepted, it gives back byte for byte.
func (e *Envelope) AppendBinary(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.RawHeader)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.Seal.binarySize()))
	dst = append(dst, e.RawHeader...)
	dst = e.Seal.appendBinary(dst)
	return append(dst, e.Payload...)
}

// What helps with whole classes of mistakes.
const (
	documentHint = `a message is {"envelope": {…}, "payload": …, "seal": {…}}`
	headerHint   = "the schema Header in a node's /v1/openapi.yaml tells the rule of each member"
	sealHint     = "the schema Seal in a node's /v1/openapi.yaml tells the form; the SDKs write it"
	largeHint    = "send a reference to the data, or have the administrator raise node.max_payload_bytes"
)

// hinted is err with the hint, unless it has one.
func hinted(err error, hint string) error {
	if e := AsError(err); e.Hint == "" {
		return e.WithHint("%s", hint)
	}
	return err
}

func assemble(header, payload []byte, seal *Seal, maxPayload int) (*Envelope, error) {
	if len(payload) > maxPayload {
		return nil, Errorf(TooLarge, StepDecode, "payload is %d bytes; the limit is %d", len(payload), maxPayload).WithHint(largeHint)
	}
	h, err := decodeHeader(header)
	if err != nil {
		return nil, err
	}
	return &Envelope{Header: h, RawHeader: header, Payload: payload, Seal: seal}, nil
}

// Same reports whether both say the same: equal header and payload bytes, whatever the seals.
func (e *Envelope) Same(other *Envelope) bool {
	return bytes.Equal(e.RawHeader, other.RawHeader) && bytes.Equal(e.Payload, other.Payload)
}
