package envelope_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	v1 "encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

var secretSeed = [32]byte{0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x97, 0x88, 0x79, 0x6a, 0x5b, 0x4c, 31: 0x42}

// leaks reports whether s holds the seed's first bytes in any of the usual notations.
func leaks(s string) bool {
	part := secretSeed[:4]
	for _, form := range []string{
		string(part), hex.EncodeToString(part), strings.ToUpper(hex.EncodeToString(part)), base64.StdEncoding.EncodeToString(secretSeed[:3]),
		fmt.Sprint(part)[1:], fmt.Sprintf("% x", part), fmt.Sprintf("%#v", part)[7:], fmt.Sprintf("%q", part)[1:], fmt.Sprintf("%o", part), fmt.Sprintf("%b", part),
		fmt.Sprintf("%U", part)[1:], fmt.Sprintf("%c", part)[1:], fmt.Sprintf("% X", part), fmt.Sprintf("%#x", part)[2:],
	} {
		if strings.Contains(s, strings.TrimRight(form, `]}"`)) {
			return true
		}
	}
	return false
}

type exported struct{ Key envelope.PrivateKey }
type unexported struct{ key envelope.PrivateKey }
type deep struct {
	inner *unexported
	list  []envelope.PrivateKey
	table map[string]any
}

// holders are the ways in which a key may hang in what somebody prints.
func holders() map[string]any {
	k := envelope.KeyFromSeed(secretSeed)
	return map[string]any{
		"value": k, "pointer": &k, "field": exported{k}, "unexported field": unexported{k}, "pointer to unexported": &unexported{k},
		"slice": []envelope.PrivateKey{k}, "map": map[string]envelope.PrivateKey{"k": k}, "array": [1]unexported{{k}},
		"deep": deep{&unexported{k}, []envelope.PrivateKey{k}, map[string]any{"k": k}}, "in an error": fmt.Errorf("key %v", k),
	}
}

// TestTheDetectorDetects holds leaks to account: it must find the raw key under every verb.
func TestTheDetectorDetects(t *testing.T) {
	raw := []byte(envelope.KeyFromSeed(secretSeed).TLSKey())
	for _, format := range []string{"%v", "%d", "%x", "%X", "%q", "%s", "%o", "%b", "%U", "%c", "% x", "%#v", "%#x", "%+v"} {
		if !leaks(fmt.Sprintf(format, raw)) {
			t.Errorf("%s of the raw key is not found: %s", format, fmt.Sprintf(format, raw))
		}
	}
}

func TestNoVerbPrintsAKey(t *testing.T) {
	for name, holder := range holders() {
		for _, verb := range "vTtbcdoOqxXUeEfFgGspwZ" {
			for _, flags := range []string{"", "+", "#", " ", "-20", "020", "+#", "# "} {
				format := "%" + flags + string(verb)
				if s := fmt.Sprintf(format, holder); leaks(s) {
					t.Errorf("%s of %s: %s", format, name, s)
				}
				if err := fmt.Errorf(format, holder); leaks(err.Error()) {
					t.Errorf("Errorf %s of %s: %s", format, name, err)
				}
			}
		}
		if s := fmt.Sprint(holder) + fmt.Sprintln(holder); leaks(s) {
			t.Errorf("Print of %s: %s", name, s)
		}
	}
	if s := fmt.Sprintf("%v %s %d %x %+v %#v", holdersKey(), holdersKey(), holdersKey(), holdersKey(), holdersKey(), holdersKey()); s != strings.Repeat(" [redacted]", 6)[1:] {
		t.Error(s)
	}
}

func holdersKey() envelope.PrivateKey { return envelope.KeyFromSeed(secretSeed) }

func TestNoLoggerPrintsAKey(t *testing.T) {
	for name, holder := range holders() {
		var out bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			log := slog.New(handler).With("with", holder).WithGroup("group")
			log.Info("key", "key", holder, "group", slog.GroupValue(slog.Any("in", holder)))
		}
		if leaks(out.String()) {
			t.Errorf("%s: %s", name, &out)
		}
	}
}

func TestNoEncoderWritesAKey(t *testing.T) {
	for name, holder := range holders() {
		b, err := v1.Marshal(holder)
		c, err2 := json.Marshal(holder)
		if leaks(string(b)) || leaks(string(c)) || err != nil && leaks(err.Error()) || err2 != nil && leaks(err2.Error()) {
			t.Errorf("%s: %s %s", name, b, c)
		}
	}
	b, err := json.Marshal(exported{holdersKey()})
	ok(t, err)
	if string(b) != `{"Key":"[redacted]"}` {
		t.Errorf("%s", b)
	}
}

// TestNoReflectionReachesAKey walks everything that reflection can see, unexported fields too, as debuggers' printers do.
func TestNoReflectionReachesAKey(t *testing.T) {
	for name, holder := range holders() {
		var seen bytes.Buffer
		walk(reflect.ValueOf(holder), &seen, 0)
		if leaks(seen.String()) {
			t.Errorf("the key is in sight in %s", name)
		}
	}
	var control bytes.Buffer
	walk(reflect.ValueOf(struct{ raw []byte }{secretSeed[:]}), &control, 0)
	if !leaks(control.String()) {
		t.Error("the walk sees nothing")
	}
}

func walk(v reflect.Value, out *bytes.Buffer, depth int) {
	if depth > 20 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), out, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), out, depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), out, depth+1)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			walk(it.Value(), out, depth+1)
		}
	case reflect.Uint8:
		out.WriteByte(byte(v.Uint()))
	case reflect.String:
		out.WriteString(v.String())
	}
}

func TestPrivateKeyForms(t *testing.T) {
	key := envelope.GenerateKey()
	for _, passphrase := range []string{"", "correct horse"} {
		if race && passphrase != "" {
			continue
		}
		text, err := envelope.MarshalPrivateKey(key, []byte(passphrase), "order-agent")
		ok(t, err)
		got, err := envelope.ParsePrivateKey(text, []byte(passphrase))
		ok(t, err)
		if got.Public() != key.Public() {
			t.Error("another key came out")
		}
		if passphrase == "" {
			continue
		}
		for _, wrong := range []string{"", "wrong horse"} {
			_, err := envelope.ParsePrivateKey(text, []byte(wrong))
			want(t, err, envelope.Malformed, "passphrase is missing or wrong")
			if !errors.Is(err, envelope.ErrPassphrase) {
				t.Errorf("%v is not ErrPassphrase", err)
			}
		}
	}
}

func TestErrorsOfPrivateKeys(t *testing.T) {
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	for text, words := range map[string]string{
		"":                                  "is no PEM text",
		"secret":                            "is no PEM text",
		block("PUBLIC KEY", nil):            `is a PEM block of type "PUBLIC KEY"`,
		block("RSA PRIVATE KEY", nil):       `"RSA PRIVATE KEY"`,
		block("ENCRYPTED PRIVATE KEY", nil): "encrypted PKCS#8, which is not read",
		block("PRIVATE KEY", []byte("x")):   "private key: ",
		block("OPENSSH PRIVATE KEY", nil):   "private key: ",
		block("A\u202eB PRIVATE KEY", nil):  `type "A\u202eB PRIVATE KEY"`,
		block("PRIVATE KEY", secretSeed[:]): "private key: ",
		block("OPENSSH PRIVATE KEY", []byte("openssh-key-v1\x00")): "private key: ",
	} {
		key, err := envelope.ParsePrivateKey([]byte(text), nil)
		want(t, err, envelope.Malformed, words)
		if !key.IsZero() || leaks(err.Error()) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPublicKeys(t *testing.T) {
	key := seller.Public()
	got, err := envelope.ParsePublicKey(key.String())
	ok(t, err)
	if got != key || key.IsZero() || !(envelope.PublicKey{}).IsZero() {
		t.Error(got)
	}
	b, err := json.Marshal(key)
	ok(t, err)
	var read envelope.PublicKey
	ok(t, json.Unmarshal(b, &read))
	if read != key {
		t.Errorf("%s", b)
	}
	if f := key.Fingerprint(); len(f) != 26 || envelope.CheckAgentID("node", f) != nil || f == another.Public().Fingerprint() {
		t.Error(f)
	}
}

func TestSignForKeepsDomainsApart(t *testing.T) {
	sig := seller.SignFor("one", []byte("message"))
	key := seller.Public()
	if !key.VerifyFor("one", []byte("message"), sig) {
		t.Error("the right one fails")
	}
	for _, bad := range []bool{
		key.VerifyFor("two", []byte("message"), sig), key.VerifyFor("one", []byte("Message"), sig), another.Public().VerifyFor("one", []byte("message"), sig),
		key.VerifyFor("one", []byte("message"), sig[:63]), key.VerifyFor("one", []byte("message"), append(sig, 0)), key.VerifyFor("one", []byte("message"), nil),
	} {
		if bad {
			t.Error("a wrong one passes")
		}
	}
}
