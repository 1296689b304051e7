package envelope

import (
	"crypto/ed25519"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Verify checks that the holder of key said exactly e.
func (e *Envelope) Verify(key PublicKey) error { return e.verify(key, nil) }

// Verifier checks seals and remembers the roots it has checked, so that the messages of one batch cost one signature check together.
// It is safe for concurrent use.
type Verifier struct {
	roots *lru.Cache[signedRoot, struct{}]
}

type signedRoot struct {
	key  PublicKey
	root Hash
	sig  [ed25519.SignatureSize]byte
}

// NewVerifier makes a Verifier that remembers the last n roots of more than one message; about 160 bytes each.
func NewVerifier(n int) *Verifier {
	roots, err := lru.New[signedRoot, struct{}](n)
	if err != nil {
		panic(err) // n < 1
	}
	return &Verifier{roots}
}

// Verify is e.Verify with memory.
func (v *Verifier) Verify(e *Envelope, key PublicKey) error { return e.verify(key, v) }

func (e *Envelope) verify(key PublicKey, v *Verifier) error {
	if e.Seal == nil {
		return Errorf(BadSeal, StepSeal, "message of %s has no seal", e.Header.SourceAgent).
			WithHint("seal it with the agent's key; the SDKs do")
	}
	if err := e.Seal.check(); err != nil { // one that was made by hand
		return err
	}
	root := signedRoot{key, e.root(), e.Seal.Sig}
	batch := v != nil && e.Seal.Leaves > 1
	if batch && v.roots.Contains(root) {
		return nil
	}
	if !key.VerifyFor(rootDomain, root.root[:], root.sig[:]) {
		return Errorf(BadSeal, StepSeal, "seal does not prove that %s said this", e.Header.SourceAgent).
			WithHint("wrong private key, or the message was changed on the way; the known key is %s", key)
	}
	if batch {
		v.roots.Add(root, struct{}{})
	}
	return nil
}
