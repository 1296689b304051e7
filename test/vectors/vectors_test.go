package vectors

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

var update = flag.Bool("update", false, "write the vector files anew")

// files gives the content of every vector file, made from fixed seeds.
func files() map[string]any {
	return map[string]any{
		"singles.json":     batch(1, []int{0}, []int{0}),
		"batch-2.json":     batch(2, []int{0, 1}, []int{0, 1}),
		"batch-3.json":     batch(3, []int{0, 1, 2}, []int{0, 2}),
		"batch-7.json":     batch(7, []int{0, 1, 2, 3, 4, 5, 6}, []int{0, 3, 6}),
		"batch-64.json":    batch(64, []int{0, 1, 31, 32, 63}, []int{0, 42}),
		"batch-256.json":   batch(256, []int{0, 1, 127, 128, 255}, []int{1, 255}),
		"payloads.json":    payloads(),
		"headers.json":     headers(),
		"documents.json":   documents(),
		"binaries.json":    binaries(),
		"tickets.json":     tickets(),
		"keys.json":        keys(),
		"public_keys.json": publicKeys(),
		"key_files.json":   keyFiles(),
		"codes.json":       codes(),
	}
}

// TestFiles fails when a file is not what its maker makes: vectors change on purpose only.
func TestFiles(t *testing.T) {
	for name, content := range files() {
		want := marshal(t, content)
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: go test ./test/vectors -update", name)
		}
	}
}

// marshal writes plain ASCII: no editor or reviewer is to be fooled by a direction mark.
func marshal(t *testing.T, v any) []byte {
	b, err := json.Marshal(v, jsontext.WithIndent(" "))
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, r := range string(b) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return append(out, '\n')
}

func load[T any](t *testing.T, name string) []T {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	if err := json.Unmarshal(b, &cases, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(name, err)
	}
	if len(cases) == 0 {
		t.Fatal(name, "is empty")
	}
	return cases
}

func TestMessages(t *testing.T) {
	for _, name := range []string{
		"singles.json", "batch-2.json", "batch-3.json", "batch-7.json", "batch-64.json", "batch-256.json",
		"payloads.json", "headers.json", "documents.json", "binaries.json",
	} {
		for _, c := range load[messageCase](t, name) {
			t.Run(name+"/"+c.Name, func(t *testing.T) { checkMessage(t, c) })
		}
	}
}

func checkMessage(t *testing.T, c messageCase) {
	limit := envelope.DefaultMaxPayload
	if c.MaxPayload > 0 {
		limit = c.MaxPayload
	}
	doc := []byte(c.Document)
	if c.DocumentBase64 != "" {
		doc = bytes64(t, c.DocumentBase64)
	}
	if len(doc) > 0 {
		e, _, err := envelope.Decode(doc, limit)
		checkOutcome(t, "document", c, e, err)
	}
	if c.Binary != "" {
		raw := bytes64(t, c.Binary)
		e, err := envelope.DecodeBinary(raw, limit)
		checkOutcome(t, "binary", c, e, err)
		if err == nil && !bytes.Equal(e.AppendBinary(nil), raw) {
			t.Error("binary form changes when it is written again")
		}
	}
}

func checkOutcome(t *testing.T, form string, c messageCase, e *envelope.Envelope, err error) {
	t.Helper()
	if err == nil && c.PublicKey != "" {
		err = e.Verify(publicKey(t, c.PublicKey))
	}
	if got := outcome(err); got != c.Expect {
		t.Errorf("%s: got %s (%v), want %s", form, got, err, c.Expect)
		return
	}
	if err != nil {
		return
	}
	if c.Payload != nil && encode64(e.Payload) != *c.Payload {
		t.Errorf("%s: payload is %q", form, e.Payload)
	}
	if c.Leaf != "" && leafHex(e) != c.Leaf {
		t.Errorf("%s: leaf is %s", form, leafHex(e))
	}
	if c.Decoded != nil {
		checkDecoded(t, c.Decoded, e.Header)
	}
}

func checkDecoded(t *testing.T, want *decoded, h envelope.Header) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, want.TimestampUTC)
	if err != nil {
		t.Fatal(err)
	}
	if h.TraceID != want.TraceID || h.TTLSec != want.TTLSec || h.Priority != want.Priority || !h.Timestamp.Equal(at) ||
		fmt.Sprint(h.Chain) != fmt.Sprint(want.Chain) || h.TargetAgent != want.TargetAgent {
		t.Errorf("decoded %+v, want %+v", h, *want)
	}
}

// outcome is what the files say in "expect".
func outcome(err error) string {
	if err == nil {
		return ok
	}
	var e *envelope.Error
	if !errors.As(err, &e) || e.Text == "" {
		return "an error that says nothing: " + err.Error()
	}
	return string(e.Code)
}

func TestTickets(t *testing.T) {
	for _, c := range load[ticketCase](t, "tickets.json") {
		t.Run(c.Name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339Nano, c.Now)
			if err != nil {
				t.Fatal(err)
			}
			ticket, err := envelope.OpenTicket([]byte(c.Ticket), publicKey(t, c.NodeKey), now)
			if got := outcome(err); got != c.Expect {
				t.Fatalf("got %s (%v), want %s", got, err, c.Expect)
			}
			if err != nil {
				return
			}
			call := &envelope.Envelope{Header: envelope.Header{SourceAgent: c.Caller, TargetCapability: c.TargetCapability}}
			if got := outcome(ticket.Admits(call, c.Agent)); got != c.Admits {
				t.Errorf("admits: got %s, want %s", got, c.Admits)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, c := range load[keyCase](t, "keys.json") {
		key := envelope.KeyFromSeed([32]byte(bytes64(t, c.Seed))).Public()
		if key.String() != c.PublicKey || key.Fingerprint() != c.Fingerprint {
			t.Errorf("%s: %s %s", c.Name, key, key.Fingerprint())
		}
	}
	for _, c := range load[publicKeyCase](t, "public_keys.json") {
		if _, err := envelope.ParsePublicKey(c.Text); outcome(err) != c.Expect {
			t.Errorf("%s: got %v, want %s", c.Name, err, c.Expect)
		}
	}
	for _, c := range load[keyFileCase](t, "key_files.json") {
		key, err := envelope.LoadKey(filepath.Join("keys", c.File), []byte(c.Passphrase))
		if outcome(err) != c.Expect {
			t.Errorf("%s %q: got %v, want %s", c.File, c.Passphrase, err, c.Expect)
		}
		if err == nil && key.Public().String() != c.PublicKey {
			t.Errorf("%s: public key is %s", c.File, key.Public())
		}
	}
}

func TestCodes(t *testing.T) {
	for _, c := range load[codeCase](t, "codes.json") {
		if c.Code.HTTPStatus() != c.Status || c.Code.NotRun() != c.NotRun {
			t.Errorf("%s: %d %v", c.Code, c.Code.HTTPStatus(), c.Code.NotRun())
		}
	}
}

// TestSealedAgain makes the seals of the small batches from their messages: Ed25519 signs the same bytes the same way.
func TestSealedAgain(t *testing.T) {
	for n, name := range map[int]string{1: "singles.json", 2: "batch-2.json", 3: "batch-3.json", 7: "batch-7.json"} {
		cases := load[messageCase](t, name)[:n]
		es := make([]*envelope.Envelope, n)
		for i, c := range cases {
			e, err := envelope.DecodeBinary(bytes64(t, c.Binary), envelope.DefaultMaxPayload)
			if err != nil {
				t.Fatal(err)
			}
			es[i] = &envelope.Envelope{RawHeader: e.RawHeader, Payload: e.Payload}
		}
		envelope.Sign(sender, es...)
		for i, c := range cases {
			if encode64(es[i].AppendBinary(nil)) != c.Binary {
				t.Errorf("%s: message %d gets another seal", name, i)
			}
		}
	}
}

func publicKey(t *testing.T, s string) envelope.PublicKey {
	key, err := envelope.ParsePublicKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func bytes64(t *testing.T, s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
