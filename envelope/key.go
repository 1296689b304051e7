package envelope

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"golang.org/x/crypto/ssh"
)

// PrivateKey is an Ed25519 private key that no formatting verb, logger or encoder prints. The key stands behind a func
// because printers that reflect, and fmt inside unexported fields, ask no method but follow no func either.
type PrivateKey struct{ reveal func() ed25519.PrivateKey }

// PublicKey is an Ed25519 public key. It is comparable, and reads and writes as base64.
type PublicKey [ed25519.PublicKeySize]byte

// GenerateKey makes a key from the system's randomness.
func GenerateKey() PrivateKey {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return hide(key)
}

func hide(key ed25519.PrivateKey) PrivateKey {
	return PrivateKey{func() ed25519.PrivateKey { return key }}
}

// KeyFromSeed makes the key of RFC 8032 that belongs to a 32-byte seed: for test vectors.
func KeyFromSeed(seed [ed25519.SeedSize]byte) PrivateKey {
	return hide(ed25519.NewKeyFromSeed(seed[:]))
}

// Public is the key's public half.
func (k PrivateKey) Public() PublicKey { return PublicKey(k.reveal().Public().(ed25519.PublicKey)) }

// TLSKey is the key for a TLS certificate. It prints: hand it to crypto/tls only.
func (k PrivateKey) TLSKey() ed25519.PrivateKey { return k.reveal() }

// IsZero reports whether k holds no key.
func (k PrivateKey) IsZero() bool { return k.reveal == nil }

// SignFor signs domain ‖ message; the domain keeps one kind of signature from passing for another.
func (k PrivateKey) SignFor(domain string, message []byte) []byte {
	sig := k.sign(domain, message)
	return sig[:]
}

func (k PrivateKey) sign(domain string, message []byte) [ed25519.SignatureSize]byte {
	return [ed25519.SignatureSize]byte(ed25519.Sign(k.reveal(), append([]byte(domain), message...)))
}

const redacted = "[redacted]"

// String, Format (every verb of fmt), LogValue and MarshalText all hide the key.
func (k PrivateKey) String() string               { return redacted }
func (k PrivateKey) Format(f fmt.State, _ rune)   { io.WriteString(f, redacted) }
func (k PrivateKey) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// VerifyFor checks a signature made by SignFor. Under a key that was never set, or has small order, nothing verifies.
func (p PublicKey) VerifyFor(domain string, message, sig []byte) bool {
	return len(sig) == ed25519.SignatureSize && !p.smallOrder() && ed25519.Verify(p[:], append([]byte(domain), message...), sig)
}

// IsZero reports whether p was never set.
func (p PublicKey) IsZero() bool { return p == PublicKey{} }

// String is the key in standard base64.
func (p PublicKey) String() string { return base64.StdEncoding.EncodeToString(p[:]) }

// Fingerprint is the first 16 bytes of the key's SHA-256 sum in small base32, 26 characters: the id of the node that holds the key.
func (p PublicKey) Fingerprint() string {
	sum := sha256.Sum256(p[:])
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// MarshalText writes base64.
func (p PublicKey) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what ParsePublicKey reads.
func (p *PublicKey) UnmarshalText(b []byte) error {
	key, err := ParsePublicKey(string(b))
	if err == nil {
		*p = key
	}
	return err
}

// ParsePublicKey reads base64 of 32 bytes. A key of small order, under which a signature proves nothing, is refused.
func ParsePublicKey(s string) (PublicKey, error) {
	var b base64Bytes
	if err := b.UnmarshalText([]byte(s)); err != nil || len(b) != ed25519.PublicKeySize {
		return PublicKey{}, Errorf(Malformed, StepKey, "public key is not base64 of %d bytes", ed25519.PublicKeySize)
	}
	p := PublicKey(b)
	if p.smallOrder() {
		return PublicKey{}, Errorf(Malformed, StepKey, "public key has small order: anybody could sign for it")
	}
	return p, nil
}

// smallOrderKeys are the encodings of the points of order 1, 2, 4 and 8 with their sign bit zero: libsodium's list
// (ge25519_has_small_order).
var smallOrderKeys = [...]string{
	"\x00" + zeros31, // y = 0
	"\x01" + zeros31, // 1
	"\x26\xe8\x95\x8f\xc2\xb2\x27\xb0\x45\xc3\xf4\x89\xf2\xef\x98\xf0\xd5\xdf\xac\x05\xd3\xc6\x33\x39\xb1\x38\x02\x88\x6d\x53\xfc\x05",
	"\xc7\x17\x6a\x70\x3d\x4d\xd8\x4f\xba\x3c\x0b\x76\x0d\x10\x67\x0f\x2a\x20\x53\xfa\x2c\x39\xcc\xc6\x4e\xc7\xfd\x77\x92\xac\x03\x7a",
	"\xec" + ones30 + "\x7f", // p-1
	"\xed" + ones30 + "\x7f", // p, not canonical
	"\xee" + ones30 + "\x7f", // p+1, not canonical
}

const (
	zeros31 = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	ones30  = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
)

func (p PublicKey) smallOrder() bool {
	p[31] &= 0x7f // whatever the sign
	for _, small := range smallOrderKeys {
		if string(p[:]) == small {
			return true
		}
	}
	return false
}

// ErrPassphrase is in the chain of the error for an encrypted key without the right passphrase.
var ErrPassphrase = errors.New("the key is encrypted and the passphrase is missing or wrong")

// ParsePrivateKey reads an Ed25519 key in PEM: PKCS#8 ("PRIVATE KEY") or OpenSSH ("OPENSSH PRIVATE KEY"), the latter with an
// optional passphrase.
func ParsePrivateKey(text, passphrase []byte) (PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return PrivateKey{}, badKey("is no PEM text")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "OPENSSH PRIVATE KEY":
		key, err = parseOpenSSH(text, passphrase)
	case "ENCRYPTED PRIVATE KEY":
		return PrivateKey{}, badKey("is encrypted PKCS#8, which is not read").
			WithHint("keep passphrase-protected keys in the OpenSSH format: ssh-keygen -t ed25519")
	default:
		return PrivateKey{}, badKey("is a PEM block of type " + quote(block.Type))
	}
	if err != nil {
		return PrivateKey{}, badKey(err.Error()).because(err)
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return hide(k), nil
	case *ed25519.PrivateKey:
		return hide(*k), nil
	}
	return PrivateKey{}, badKey("is not an Ed25519 key")
}

func parseOpenSSH(text, passphrase []byte) (any, error) {
	if len(passphrase) == 0 {
		key, err := ssh.ParseRawPrivateKey(text)
		var missing *ssh.PassphraseMissingError
		if errors.As(err, &missing) {
			return nil, ErrPassphrase
		}
		return key, err
	}
	key, err := ssh.ParseRawPrivateKeyWithPassphrase(text, passphrase)
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, ErrPassphrase
	}
	return key, err
}

func badKey(reason string) *Error {
	return Errorf(Malformed, StepKey, "private key: %s", reason).
		WithHint("wanted: an Ed25519 key as PKCS#8 PEM (agent-reach keys new FILE) or in the OpenSSH format")
}

// MarshalPrivateKey writes PKCS#8 PEM; with a passphrase, the encrypted OpenSSH format. comment stands in the latter only.
func MarshalPrivateKey(k PrivateKey, passphrase []byte, comment string) ([]byte, error) {
	if len(passphrase) > 0 {
		block, err := ssh.MarshalPrivateKeyWithPassphrase(k.reveal(), comment, passphrase)
		if err != nil {
			return nil, badKey(err.Error())
		}
		return pem.EncodeToMemory(block), nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.reveal())
	if err != nil {
		return nil, badKey(err.Error())
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
