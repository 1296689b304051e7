package envelope

import (
	"encoding/base64"
	"errors"
	"slices"
)

// base64Bytes reads and writes as standard base64 in its one canonical form: padded, without line breaks, unused bits zero. So no two
// texts stand for the same bytes.
type base64Bytes []byte

var canonical64 = base64.StdEncoding.Strict()

var errBase64 = errors.New("no base64 in the standard alphabet, with padding and without line breaks")

func (b base64Bytes) MarshalText() ([]byte, error) { return canonical64.AppendEncode(nil, b), nil }

func (b *base64Bytes) UnmarshalText(text []byte) error {
	out, err := canonical64.AppendDecode(nil, text)
	if err != nil || slices.Contains(text, '\n') || slices.Contains(text, '\r') { // which the decoder skips
		return errBase64
	}
	*b = out
	return nil
}
