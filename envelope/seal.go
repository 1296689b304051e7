package envelope

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// MaxLeaves is the most messages that one signature may seal.
const MaxLeaves = 256

const (
	leafDomain = "\x00agent-reach/3.0"
	nodeDomain = "\x01"
	rootDomain = "agent-reach/3.0 root"
)

// Hash is a SHA-256 sum.
type Hash = [sha256.Size]byte

// Seal proves that a source said a message: the signature of a Merkle root and the message's place under it.
//
//	leaf = SHA-256(0x00 ‖ "agent-reach/3.0" ‖ SHA-256(header) ‖ SHA-256(payload))
//	node = SHA-256(0x01 ‖ left ‖ right)             an odd one out is promoted
//	sig  = Ed25519(key, "agent-reach/3.0 root" ‖ root)
//
// Index and Leaves are not signed: they only say how to walk Path, and no walk leads from another message to the same root.
type Seal struct {
	Sig    [ed25519.SignatureSize]byte
	Index  int    // 0 … Leaves-1
	Leaves int    // 1 … MaxLeaves
	Path   []Hash // siblings, from the leaf upwards
}

// Sign seals es, at most MaxLeaves of them, with one signature.
func Sign(key PrivateKey, es ...*Envelope) {
	if len(es) == 0 || len(es) > MaxLeaves {
		panic("envelope.Sign: 1 to 256 envelopes")
	}
	level := make([]Hash, len(es))
	for i, e := range es {
		level[i] = e.leaf()
	}
	paths := make([][]Hash, len(es))
	for width := len(level); width > 1; width = (width + 1) / 2 {
		shift := levelOf(len(es), width)
		for i := range es {
			if sibling := (i >> shift) ^ 1; sibling < width {
				paths[i] = append(paths[i], level[sibling])
			}
		}
		level = reduce(level[:width])
	}
	sig := key.sign(rootDomain, level[0][:])
	for i, e := range es {
		e.Seal = &Seal{Sig: sig, Index: i, Leaves: len(es), Path: paths[i]}
	}
}

// levelOf is how many times leaves was halved, rounding up, to become width.
func levelOf(leaves, width int) (n int) {
	for ; leaves > width; leaves = (leaves + 1) / 2 {
		n++
	}
	return n
}

// reduce overwrites level with the level above it.
func reduce(level []Hash) []Hash {
	out := level[:0]
	for i := 0; i+1 < len(level); i += 2 {
		out = append(out, join(level[i], level[i+1]))
	}
	if len(level)%2 == 1 {
		out = append(out, level[len(level)-1])
	}
	return out
}

func join(left, right Hash) Hash {
	var b [len(nodeDomain) + 2*sha256.Size]byte
	n := copy(b[:], nodeDomain)
	n += copy(b[n:], left[:])
	copy(b[n:], right[:])
	return sha256.Sum256(b[:])
}

func (e *Envelope) leaf() Hash {
	header, payload := sha256.Sum256(e.RawHeader), sha256.Sum256(e.Payload)
	var b [len(leafDomain) + 2*sha256.Size]byte
	n := copy(b[:], leafDomain)
	n += copy(b[n:], header[:])
	copy(b[n:], payload[:])
	return sha256.Sum256(b[:])
}

// root walks from e's leaf up its seal's path.
func (e *Envelope) root() Hash {
	h, index, width := e.leaf(), e.Seal.Index, e.Seal.Leaves
	for path := e.Seal.Path; width > 1; index, width = index/2, (width+1)/2 {
		switch {
		case index^1 >= width: // promoted
			continue
		case index%2 == 0:
			h = join(h, path[0])
		default:
			h = join(path[0], h)
		}
		path = path[1:]
	}
	return h
}

// pathLen is the number of siblings that a seal with this place must list.
func pathLen(index, leaves int) (n int) {
	for ; leaves > 1; index, leaves = index/2, (leaves+1)/2 {
		if index^1 < leaves {
			n++
		}
	}
	return n
}

func (s *Seal) check() error {
	if s.Leaves < 1 || s.Leaves > MaxLeaves || s.Index < 0 || s.Index >= s.Leaves {
		return Errorf(Malformed, StepDecode, "seal: index %d of %d leaves; 1 to %d leaves, index below that", s.Index, s.Leaves, MaxLeaves)
	}
	if want := pathLen(s.Index, s.Leaves); len(s.Path) != want {
		return Errorf(Malformed, StepDecode, "seal: path has %d hashes; index %d of %d leaves needs %d", len(s.Path), s.Index, s.Leaves, want)
	}
	return nil
}

const sealFixed = ed25519.SignatureSize + 4

func (s *Seal) binarySize() int {
	if s == nil {
		return 0
	}
	return sealFixed + len(s.Path)*sha256.Size
}

func (s *Seal) appendBinary(dst []byte) []byte {
	if s == nil {
		return dst
	}
	dst = append(dst, s.Sig[:]...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(s.Index))
	dst = binary.BigEndian.AppendUint16(dst, uint16(s.Leaves))
	for i := range s.Path {
		dst = append(dst, s.Path[i][:]...)
	}
	return dst
}

func decodeSeal(b []byte) (*Seal, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < sealFixed || (len(b)-sealFixed)%sha256.Size != 0 {
		return nil, Errorf(Malformed, StepDecode, "seal of %d bytes; it is 68 + 32 for each hash of its path", len(b))
	}
	s := &Seal{
		Sig:    [ed25519.SignatureSize]byte(b),
		Index:  int(binary.BigEndian.Uint16(b[ed25519.SignatureSize:])),
		Leaves: int(binary.BigEndian.Uint16(b[ed25519.SignatureSize+2:])),
	}
	b = b[sealFixed:]
	for s.Path = make([]Hash, 0, len(b)/sha256.Size); len(b) > 0; b = b[sha256.Size:] {
		s.Path = append(s.Path, Hash(b))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

type sealJSON struct {
	Sig    base64Bytes   `json:"sig"`
	Index  int           `json:"index"`
	Leaves *int          `json:"leaves,omitzero"` // absent: 1
	Path   []base64Bytes `json:"path"`
}

func (j *sealJSON) seal() (*Seal, error) {
	if j == nil {
		return nil, nil
	}
	s := &Seal{Index: j.Index, Leaves: orDefault(j.Leaves, 1)}
	if len(j.Sig) != len(s.Sig) {
		return nil, Errorf(Malformed, StepDecode, "seal: sig is %d bytes, not %d", len(j.Sig), len(s.Sig))
	}
	copy(s.Sig[:], j.Sig)
	for i, h := range j.Path {
		if len(h) != sha256.Size {
			return nil, Errorf(Malformed, StepDecode, "seal: path[%d] is %d bytes, not %d", i, len(h), sha256.Size)
		}
		s.Path = append(s.Path, Hash(h))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Seal) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"sig":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, s.Sig[:])
	dst = append(dst, `","index":`...)
	dst = strconv.AppendInt(dst, int64(s.Index), 10)
	dst = append(dst, `,"leaves":`...)
	dst = strconv.AppendInt(dst, int64(s.Leaves), 10)
	dst = append(dst, `,"path":[`...)
	for i := range s.Path {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, s.Path[i][:])
		dst = append(dst, '"')
	}
	return append(dst, `]}`...)
}
