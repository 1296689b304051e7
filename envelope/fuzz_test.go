package envelope_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

const fuzzLimit = 1 << 16

func FuzzDecode(f *testing.F) {
	for _, e := range append(sealedBatch(f, 1), sealedBatch(f, 5)...) {
		doc, _ := e.AppendDocument(nil, []byte(`{"body":{},"sig":""}`))
		f.Add(doc)
	}
	f.Add([]byte(" {\"payload\" : null ,\t\"seal\":null, \"envelope\":{ " + plain + "} } \n"))
	f.Add([]byte(`{"envelope":{` + plain + `,"x":{"a":1,"a":2}}}`))
	f.Add([]byte(`{"envelope":{` + plain + `,"ttl_sec":null,"chain":["a"]},"payload":"\ud83e\udd16"}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		e, ticket, err := envelope.Decode(doc, fuzzLimit)
		if err != nil {
			checkError(t, err)
			return
		}
		if !bytes.Contains(doc, e.RawHeader) || !bytes.Contains(doc, e.Payload) {
			t.Fatal("header or payload are not bytes of the document")
		}
		again, err := e.AppendDocument(nil, ticket)
		if err != nil {
			t.Fatal(err)
		}
		f, ticket2, err := envelope.Decode(again, fuzzLimit)
		if err != nil {
			t.Fatal(err)
		}
		if !f.Same(e) || !bytes.Equal(ticket, ticket2) {
			t.Fatalf("%s became %s", doc, again)
		}
		checkBinary(t, e)
		e.Verify(seller.Public())
	})
}

// checkBinary: what decodes encodes to the same bytes and decodes again to the same envelope.
func checkBinary(t *testing.T, e *envelope.Envelope) {
	raw := e.AppendBinary(nil)
	g, err := envelope.DecodeBinary(raw, fuzzLimit)
	if err != nil {
		t.Fatal(err)
	}
	if !g.Same(e) || !bytes.Equal(g.AppendBinary(nil), raw) || len(raw) != e.BinarySize() {
		t.Fatalf("%q became %q", raw, g.AppendBinary(nil))
	}
}

func checkError(t *testing.T, err error) {
	e := envelope.AsError(err)
	if e.Code == envelope.Internal || e.Step == "" || e.Text == "" || len(err.Error()) > 2000 {
		t.Fatalf("poor error: %v", err)
	}
	checkPrintable(t, err.Error())
}

func FuzzDecodeBinary(f *testing.F) {
	for _, e := range append(sealedBatch(f, 1), sealedBatch(f, 5)...) {
		f.Add(e.AppendBinary(nil))
	}
	f.Add([]byte("\x00\x02\x00\x00{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := envelope.DecodeBinary(raw, fuzzLimit)
		if err != nil {
			checkError(t, err)
			return
		}
		if !bytes.Equal(e.AppendBinary(nil), raw) {
			t.Fatalf("%q became %q", raw, e.AppendBinary(nil))
		}
		e.Verify(seller.Public())
		doc, err := e.AppendDocument(nil, nil)
		if err != nil {
			checkError(t, err)
			return
		}
		g, _, err := envelope.Decode(doc, fuzzLimit)
		if err != nil || !g.Same(e) {
			t.Fatalf("%s: %v", doc, err)
		}
	})
}

func FuzzOpenTicket(f *testing.F) {
	doc, err := envelope.SealTicket(another, ticket())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc, []byte(`{"id":"x"}`))
	f.Add([]byte(`{"body":null,"sig":""}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, doc, body []byte) {
		if got, err := envelope.OpenTicket(doc, another.Public(), at.Time); err != nil {
			checkError(t, err)
		} else if got.Agent != ticket().Agent {
			t.Fatalf("forged: %s", doc)
		}
		// The body behind the signature, which the fuzzer could never make.
		signed := append(append([]byte(`{"body":`), body...), `,"sig":"`...)
		signed = append(signed, encode64(another.SignFor("agent-reach/3.0 ticket", body))...)
		if got, err := envelope.OpenTicket(append(signed, `"}`...), another.Public(), at.Time); err != nil {
			checkError(t, err)
		} else if got.Expires.Before(at.Add(-envelope.ClockTolerance)) {
			t.Fatalf("expired ticket passes: %s", body)
		}
	})
}

func FuzzParsePrivateKey(f *testing.F) {
	text, err := envelope.MarshalPrivateKey(seller, nil, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, file := range []string{"openssh", "openssh-passphrase", "openssh-ecdsa", "pkcs8-p256.pem"} {
		text, err := os.ReadFile("../test/vectors/keys/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := envelope.ParsePrivateKey(text, nil)
		if err != nil {
			checkError(t, err)
			return
		}
		again, err := envelope.MarshalPrivateKey(key, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := envelope.ParsePrivateKey(again, nil); err != nil || got.Public() != key.Public() {
			t.Fatal("another key comes out", err)
		}
	})
}

func FuzzDecodeDescriptor(f *testing.F) {
	f.Add([]byte(`{"agent_id":"a","capabilities":[{"name":"c","version":"1.0.0","tags":["x"],"effect":"read","input_schema":{}}],"current_load":1.5}`))
	f.Add([]byte(`{"agent_id":"a","endpoint":{"type":"http","url":"http://x/","probe_url":"http://x/p"},"public_key":"iojj3XQJ8ZX9Utstsmp86RIYT+dGdzm7Wh3j6kW1k6I="}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := envelope.DecodeDescriptor(b)
		if err != nil {
			e := envelope.AsError(err)
			if e.Code == envelope.Internal || e.Text == "" {
				t.Fatalf("poor error: %v", err)
			}
			checkPrintable(t, err.Error())
			return
		}
		if envelope.CheckAgentID("", d.AgentID) != nil || d.HeartbeatIntervalSec < 1 || d.MaxConcurrentRequests < 1 || d.CurrentLoad < 0 {
			t.Fatalf("%+v", d)
		}
		for _, c := range d.Capabilities {
			if _, err := envelope.ParseTarget(c.Name); err != nil {
				t.Fatalf("%q cannot be asked for: %v", c.Name, err)
			}
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"a", "a@*", "a@1.x", "a@^1.2.3", "a@>=0", "a@~1", "a.b:c-d_e@1.2.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := envelope.ParseTarget(s)
		h := request()
		h.TargetCapability = s
		if _, errHeader := envelope.New(h, nil); s != "" && (errHeader == nil) != (err == nil) {
			t.Fatalf("%q: ParseTarget %v, header %v", s, err, errHeader)
		}
		if err != nil {
			checkError(t, err)
			return
		}
		if envelope.CheckCapability("", target.Name) != nil || s[:len(target.Name)] != target.Name {
			t.Fatalf("%q has the name %q", s, target.Name)
		}
	})
}

func FuzzUnmarshalError(f *testing.F) {
	f.Add([]byte(`{"code":"loop","step":"seal","text":"t","hint":"h","trace_id":"x","retry_after_ms":5,"places":[{"pointer":"/a","text":"b"}]}`))
	f.Add([]byte(`{"code":"","retry_after_ms":-1e3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := envelope.UnmarshalError(b)
		if e == nil || e.Code == "" || e.RetryAfter < 0 {
			t.Fatalf("%+v", e)
		}
		again := envelope.UnmarshalError(envelope.MarshalError(e))
		if again.Error() != e.Error() || again.RetryAfter != e.RetryAfter || again.TraceID != e.TraceID {
			t.Fatalf("%+v became %+v", e, again)
		}
	})
}
