package envelope_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// TestRoundTrips: what was signed comes out of both forms byte for byte, and verifies.
func TestRoundTrips(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		e := message(t, randomHeader(random), randomPayload(random))
		batch := []*envelope.Envelope{e}
		for range random.IntN(5) {
			batch = append(batch, message(t, randomHeader(random), randomPayload(random)))
		}
		if random.IntN(8) > 0 {
			envelope.Sign(seller, batch...)
		}
		raw := e.AppendBinary(nil)
		if len(raw) != e.BinarySize() {
			t.Fatalf("%d bytes, BinarySize says %d", len(raw), e.BinarySize())
		}
		bin, err := envelope.DecodeBinary(raw, len(e.Payload))
		ok(t, err)
		sameMessage(t, e, bin)
		if !bytes.Equal(bin.AppendBinary(nil), raw) {
			t.Fatal("binary form changes when it is written again")
		}
		doc, err := bin.AppendDocument(nil, nil)
		ok(t, err)
		read, ticket, err := envelope.Decode(doc, len(e.Payload))
		ok(t, err)
		sameMessage(t, e, read)
		again, err := read.AppendDocument([]byte("before"), nil)
		ok(t, err)
		if string(again) != "before"+string(doc) || ticket != nil {
			t.Fatalf("document changes when it is written again:\n%s\n%s", doc, again)
		}
	}
}

func sameMessage(t *testing.T, want, got *envelope.Envelope) {
	t.Helper()
	if !got.Same(want) || got.Header.MsgID != want.Header.MsgID || !slices.Equal(got.Header.Chain, want.Header.Chain) {
		t.Fatalf("got %s %s, want %s %s", got.RawHeader, got.Payload, want.RawHeader, want.Payload)
	}
	if want.Seal == nil != (got.Seal == nil) {
		t.Fatal("seal lost or made up")
	}
	if got.Seal != nil {
		ok(t, got.Verify(seller.Public()))
	}
}

func randomHeader(r *rand.Rand) envelope.Header {
	h := request()
	h.MsgID = strings.Repeat("~m!", 1+r.IntN(40))
	h.TTLSec, h.Priority = r.IntN(envelope.MaxTTL), r.IntN(10)
	h.Timestamp.Time = h.Timestamp.Add(time.Duration(r.Int64N(int64(time.Hour))))
	for range r.IntN(envelope.MaxChain + 1) {
		h.Chain = append(h.Chain, "agent-"+strings.Repeat("x", r.IntN(100)))
	}
	if r.IntN(3) == 0 {
		h.MsgType, h.InReplyTo, h.Status = envelope.Response, "m-0", envelope.StatusError
		h.Error = jsontext.Value(`{"code":"sold_out","text":"ausverkauft – 售罄","more":[1,{}]}`)
	}
	return h
}

func randomPayload(r *rand.Rand) string {
	return []string{"", "null", "{}", `""`, "[ 1,\n2 ]", `{"b":1e400,"a":"\u00e9"}`, `"合同审查"`, strings.Repeat("7", 1+r.IntN(2000))}[r.IntN(8)]
}

func TestTicketTravelsWithTheDocument(t *testing.T) {
	e := message(t, request(), "{}")
	ticket, err := envelope.SealTicket(seller, envelope.Ticket{ID: "t", Expires: at})
	ok(t, err)
	doc, err := e.AppendDocument(nil, ticket)
	ok(t, err)
	_, got, err := envelope.Decode(doc, 2)
	ok(t, err)
	if !bytes.Equal(got, ticket) {
		t.Errorf("got %s, want %s", got, ticket)
	}
}

// TestWhatNoDocumentCanHold: links carry any payload, documents only JSON as it stands.
func TestWhatNoDocumentCanHold(t *testing.T) {
	for payload, words := range map[string]string{
		"\x00": "not JSON", "{": "not JSON", "1 2": "not JSON", `{"a":1,"a":2}`: "not JSON", "NaN": "not JSON", `"` + "\xff" + `"`: "not JSON",
		" {}": "white space", "{}\n": "white space", " ": "white space",
	} {
		e := message(t, request(), payload)
		envelope.Sign(seller, e)
		_, err := e.AppendDocument(nil, nil)
		want(t, err, envelope.Malformed, words)
		got, err := envelope.DecodeBinary(e.AppendBinary(nil), 100)
		ok(t, err)
		ok(t, got.Verify(seller.Public()))
	}
}

func TestPayloadLimit(t *testing.T) {
	e := message(t, request(), `"12345678"`)
	doc, err := e.AppendDocument(nil, nil)
	ok(t, err)
	for limit, fits := range map[int]bool{9: false, 10: true} {
		_, _, err := envelope.Decode(doc, limit)
		_, errBinary := envelope.DecodeBinary(e.AppendBinary(nil), limit)
		if fits {
			ok(t, err)
			ok(t, errBinary)
			continue
		}
		want(t, err, envelope.TooLarge, "payload is 10 bytes", "limit is 9")
		want(t, errBinary, envelope.TooLarge, "payload is 10 bytes", "limit is 9")
	}
	_, _, err = envelope.Decode(doc, 1<<63-1)
	ok(t, err)
	_, _, err = envelope.Decode(bytes.Repeat([]byte(" "), 10+envelope.Overhead+envelope.MaxTicket+1), 10)
	want(t, err, envelope.TooLarge, "payload limit is 10")
}

// TestOverheadHolds: the largest header, seal and ticket fit into what is reserved for them.
func TestOverheadHolds(t *testing.T) {
	h := request()
	h.ConversationID = "x"
	e := sealedBatch(t, envelope.MaxLeaves)[0]
	e.RawHeader = append([]byte(`{"pad":"`+strings.Repeat("x", envelope.MaxHeader-len(`{"pad":"",`)-len(e.RawHeader)+1)+`",`), e.RawHeader[1:]...)
	e.Payload = nil
	if len(e.RawHeader) != envelope.MaxHeader {
		t.Fatal(len(e.RawHeader))
	}
	doc, err := e.AppendDocument(nil, nil)
	ok(t, err)
	if len(doc) > envelope.Overhead || e.BinarySize() > envelope.Overhead {
		t.Errorf("document %d, binary %d, reserved %d", len(doc), e.BinarySize(), envelope.Overhead)
	}
	_, _, err = envelope.Decode(doc, 0)
	ok(t, err)
}

func TestErrorsOfDecode(t *testing.T) {
	header := string(message(t, request(), "").RawHeader)
	for doc, words := range map[string][]string{
		``:                                  {"EOF", `"envelope": {…}`},
		`{"payload":1}`:                     {`no "envelope"`},
		`{"envelope":7}`:                    {"not a JSON object"},
		`{"envelope":` + header + `,"x":1}`: {`"/x"`, "no member of that name"},
		`{"envelope":` + header + `,"payload":{"a":1,"a":2}}`:                                            {"duplicate", `"a"`, "/payload"},
		`{"envelope":` + header + `,"seal":{"sig":"AA=="}}`:                                              {"sig is 1 bytes, not 64"},
		`{"envelope":` + header + `,"seal":{"sig":"AA"}}`:                                                {"/seal/sig", "base64", "padding"},
		`{"envelope":` + header + `,"seal":{"sig":7}}`:                                                   {"/seal/sig"},
		`{"envelope":` + header + `,"seal":[]}`:                                                          {`"/seal"`, "an array where an object is wanted"},
		`{"envelope":` + header + `,"seal":{"index":1.5}}`:                                               {"/seal/index", `"1.5"`, "an integer"},
		`{"envelope":` + header + `,"seal":{"sig":"` + strings.Repeat("A", 86) + `==","path":["AA=="]}}`: {"path[0] is 1 bytes, not 32"},
	} {
		e, ticket, err := envelope.Decode([]byte(doc), 100)
		want(t, err, envelope.Malformed, words...)
		if e != nil || ticket != nil {
			t.Errorf("%s: something comes with the error", doc)
		}
	}
}

func TestErrorsOfDecodeBinary(t *testing.T) {
	header := string(message(t, request(), "").RawHeader)
	for raw, words := range map[string][]string{
		"":                      {"0 bytes", "cut short"},
		"\x00\x05\x00\x00{}":    {"header 5 + seal 0 bytes announced, 2 there"},
		"\x00\x02\x00\x01{}x":   {"seal of 1 bytes", "68 + 32"},
		"\x00\x03\x00\x00 {}":   {"white space"},
		"\x00\x02\x00\x00{}":    {"version is missing"},
		"\x00\x02\x00\x00{x":    {"not a JSON object"},
		"\x00\x00\x00\x00hello": {"not a JSON object"},
		string([]byte{0, byte(len(header) + 1), 0, 0}) + header + "}": {"after top-level value"},
	} {
		e, err := envelope.DecodeBinary([]byte(raw), 100)
		want(t, err, envelope.Malformed, words...)
		if e != nil {
			t.Errorf("%q: something comes with the error", raw)
		}
	}
}

func TestNewRefusesWhatDecodeWould(t *testing.T) {
	h := request()
	h.SourceAgent = "order agent"
	_, err := envelope.New(h, nil)
	want(t, err, envelope.Malformed, "source_agent", "' ' (U+0020) at byte 5")
	h = request()
	h.Error = jsontext.Value(`{`)
	_, err = envelope.New(h, nil)
	want(t, err, envelope.Malformed, "header")
	h = request()
	h.ConversationID = "x\xff"
	_, err = envelope.New(h, nil)
	want(t, err, envelope.Malformed, "header")
}

func TestNewFillsIn(t *testing.T) {
	h := message(t, request(), "").Header
	if h.Version != "3.0" || h.TTLSec != 60 || h.Priority != 5 || h.TraceID != h.MsgID {
		t.Errorf("%+v", h)
	}
	if got := h.Deadline(); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("deadline %v", got)
	}
	h = request()
	h.Timestamp.Time = at.In(time.FixedZone("CST", 8*3600))
	if e := message(t, h, ""); !bytes.Contains(e.RawHeader, []byte(`"timestamp_utc":"2025-06-05T06:12:33Z"`)) {
		t.Errorf("%s", e.RawHeader)
	}
}

func TestDecodeSharesNothingItMayNot(t *testing.T) {
	raw := message(t, request(), "{}").AppendBinary(nil)
	e, err := envelope.DecodeBinary(raw, 10)
	ok(t, err)
	_ = append(e.RawHeader, "overrun"...)
	if string(e.Payload) != "{}" {
		t.Errorf("appending to the header changed the payload to %s", e.Payload)
	}
}

func BenchmarkDecode(b *testing.B) {
	e := sealedBatch(b, 16)[3]
	doc, _ := e.AppendDocument(nil, nil)
	raw := e.AppendBinary(nil)
	b.Run("document", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := envelope.Decode(doc, 1000); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("binary", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := envelope.DecodeBinary(raw, 1000); err != nil {
				b.Fatal(err)
			}
		}
	})
}
