package vectors

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// documents are cases that only the JSON form can have.
func documents() []messageCase {
	var cases []messageCase
	for _, list := range []func(add func(name, doc, expect string)){outerDocuments, sealDocuments, badPayloads, nesting} {
		list(func(name, doc, expect string) {
			c := messageCase{Name: ascii(name), Expect: expect}
			c.setDocument([]byte(doc))
			cases = append(cases, c)
		})
	}
	return append(cases, keptBytes()...)
}

func outerDocuments(add func(name, doc, expect string)) {
	h := headerWith()
	whole := `{"envelope":` + h + `,"payload":{}}`
	add("unsealed", whole, ok)
	add("seal null, ticket null: absent", `{"envelope":`+h+`,"payload":{},"seal":null,"ticket":null}`, ok)
	add("any ticket is handed on", `{"envelope":`+h+`,"ticket":{"whatever":1}}`, ok)
	add("unknown member", `{"envelope":`+h+`,"payload":{},"extra":1}`, "malformed")
	add("unknown member, differs in case", `{"envelope":`+h+`,"Payload":{}}`, "malformed")
	add("unknown member that is null", `{"envelope":`+h+`,"extra":null}`, "malformed")
	for _, member := range []string{`"envelope":` + h, `"payload":{}`, `"seal":null`, `"ticket":null`} {
		add("twice "+member[:8], `{"envelope":`+h+`,"payload":{},"seal":null,"ticket":null,`+member+`}`, "malformed")
	}
	add("twice, once with escapes", `{"envelope":`+h+`,"payload":1,"p\u0061yload":1}`, "malformed")
	add("no envelope", `{"payload":{}}`, "malformed")
	add("empty object", `{}`, "malformed")
	for _, doc := range []string{" ", "null", "true", "7", `"x"`, "[]", "[" + whole + "]", "{", whole[:len(whole)-1], "}"} {
		add("document "+doc[:min(len(doc), 12)], doc, "malformed")
	}
	add("byte order mark", "\ufeff"+whole, "malformed")
	add("UTF-16 with byte order mark", utf16Bytes("\ufeff"+whole), "malformed")
	add("UTF-16", utf16Bytes(whole), "malformed")
	add("two documents", whole+whole, "malformed")
	add("two documents, one a line", whole+"\n"+whole, "malformed")
	add("text after it", whole+" x", "malformed")
	add("NUL after it", whole+"\x00", "malformed")
	add("no-break space around it", "\u00a0"+whole, "malformed")
	add("form feed inside", "{\f"+whole[1:], "malformed")
}

func utf16Bytes(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

func sealDocuments(add func(name, doc, expect string)) {
	good := sealed(headerWith(), "{}")
	sig := encode64(good.Seal.Sig[:])
	hash := encode64(make([]byte, 32))
	for _, s := range []struct{ name, seal, expect string }{
		{"sig alone: index 0 of 1", `{"sig":"` + sig + `"}`, ok},
		{"leaves null", `{"sig":"` + sig + `","index":0,"leaves":null,"path":[]}`, ok},
		{"path null", `{"sig":"` + sig + `","index":0,"leaves":1,"path":null}`, ok},
		{"escapes in base64", `{"sig":"` + strings.ReplaceAll(sig, "=", `\u003d`) + `"}`, ok},
		{"no sig", `{"index":0,"leaves":1,"path":[]}`, ""}, {"sig null", `{"sig":null}`, ""}, {"sig empty", `{"sig":""}`, ""}, {"sig a number", `{"sig":64}`, ""},
		{"sig of 63 bytes", `{"sig":"` + encode64(good.Seal.Sig[:63]) + `"}`, ""}, {"sig of 65 bytes", `{"sig":"` + encode64(append(good.Seal.Sig[:], 0)) + `"}`, ""},
		{"sig without padding", `{"sig":"` + strings.TrimRight(sig, "=") + `"}`, ""}, {"sig with a newline", `{"sig":"` + sig[:40] + `\n` + sig[40:] + `"}`, ""},
		{"sig with a newline at its end", `{"sig":"` + sig + `\n"}`, ""}, {"sig with a space", `{"sig":"` + sig[:40] + ` ` + sig[40:] + `"}`, ""},
		{"sig with unused bits set", `{"sig":"` + sig[:85] + nextLetter(sig[85]) + `=="}`, ""}, {"sig in the URL alphabet", `{"sig":"-_` + sig[2:] + `"}`, ""},
		{"sig in hex", `{"sig":"` + encodeHex(good.Seal.Sig[:]) + `"}`, ""}, {"path a string", `{"sig":"` + sig + `","path":""}`, ""},
		{"path with null", `{"sig":"` + sig + `","leaves":2,"path":[null]}`, ""}, {"path with 31 bytes", `{"sig":"` + sig + `","leaves":2,"path":["` + encode64(make([]byte, 31)) + `"]}`, ""},
		{"path for a message alone", `{"sig":"` + sig + `","path":["` + hash + `"]}`, ""}, {"path missing", `{"sig":"` + sig + `","leaves":2}`, ""},
		{"leaves 0", `{"sig":"` + sig + `","leaves":0}`, ""}, {"leaves -1", `{"sig":"` + sig + `","leaves":-1}`, ""}, {"leaves 257", `{"sig":"` + sig + `","leaves":257,"path":[` + strings.Repeat(quoted(hash)+",", 8) + quoted(hash) + `]}`, ""},
		{"leaves 1.0", `{"sig":"` + sig + `","leaves":1.0}`, ""}, {"leaves a string", `{"sig":"` + sig + `","leaves":"1"}`, ""}, {"leaves true", `{"sig":"` + sig + `","leaves":true}`, ""},
		{"index -1", `{"sig":"` + sig + `","index":-1}`, ""}, {"index 1 of 1", `{"sig":"` + sig + `","index":1}`, ""}, {"index 0.0", `{"sig":"` + sig + `","index":0.0}`, ""}, {"index false", `{"sig":"` + sig + `","index":false}`, ""},
		{"index beyond 64 bits", `{"sig":"` + sig + `","index":18446744073709551616}`, ""},
		{"unknown member", `{"sig":"` + sig + `","alg":"none"}`, ""}, {"sig twice", `{"sig":"` + sig + `","sig":"` + sig + `"}`, ""}, {"a string", quoted(sig), ""}, {"an array", `[]`, ""}, {"false", "false", ""},
	} {
		expect := s.expect
		if expect == "" {
			expect = "malformed"
		}
		add("seal: "+s.name, `{"envelope":`+headerWith()+`,"payload":{},"seal":`+s.seal+`}`, expect)
	}
}

// nextLetter of the base64 alphabet differs in the lowest bit, which 64 bytes leave unused.
func nextLetter(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return alphabet[strings.IndexByte(alphabet, c)+1:][:1]
}

func badPayloads(add func(name, doc, expect string)) {
	for _, p := range []string{
		"NaN", "Infinity", "-Infinity", "-", "01", "-01", "+1", ".5", "1.", "1e", "0x10", "1_000", "\u0661", "True", "None", "undefined", "nul", "'x'", "{'a':1}", "{a:1}",
		"[1,]", `{"a":1,}`, "[,1]", "[1 2]", `{"a" 1}`, `{"a":}`, `{1:2}`, "/* */1", "1//", "\"\t\"", "\"\n\"", "\"\x00\"", "\"\x1f\"", `"\x41"`, `"\u12"`, `"\U0001F600"`, `"\'"`, `"`, "`x`",
		`"\ud800"`, `"\udc00"`, `"\ude00\ud83d"`, `"\ud83d\ud83d"`, `"\ud83dx"`, `{"\ud800":1}`,
		"\"\xff\"", "\"\xc0\xaf\"", "\"\xe0\x80\xaf\"", "\"\xed\xa0\x80\"", "\"\xed\xa0\xbd\xed\xb8\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "{\"\x80\":1}",
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"x":{"a":1,"b":2,"a":3}}]`, `{"":1,"":2}`, "{\"\u00e9\":1,\"\\u00e9\":2}", "{\"\U0001f600\":1,\"\\ud83d\\ude00\":2}",
	} {
		add("payload "+p[:min(len(p), 24)], `{"envelope":`+headerWith()+`,"payload":`+p+`}`, "malformed")
	}
	add("payload with names that differ by composition: different names", "{\"envelope\":"+headerWith()+",\"payload\":{\"\u00e9\":1,\"e\u0301\":2}}", ok)
	add("payload member without value", `{"envelope":`+headerWith()+`,"payload":}`, "malformed")
}

func nesting(add func(name, doc, expect string)) {
	nest := func(n int, open, end string) string {
		return `{"envelope":` + headerWith() + `,"payload":` + strings.Repeat(open, n) + "1" + strings.Repeat(end, n) + `}`
	}
	add("nested 250 deep: must be read", nest(249, "[", "]"), ok)
	add("objects nested 250 deep: must be read", nest(249, `{"":`, "}"), ok)
	add("nested 10001 deep: must be refused", nest(10_000, "[", "]"), "malformed")
	add("objects nested 10001 deep: must be refused", nest(10_000, `{"":`, "}"), "malformed")
	add("nested 10001 deep and never closed", `{"envelope":`+headerWith()+`,"payload":`+strings.Repeat("[", 10_000), "malformed")
}

// keptBytes are sealed documents in an unusual dress: exactly the bytes of the two values are what is sealed.
func keptBytes() []messageCase {
	header := "{ \"version\":\"3.0\",\n\t" + headerWith("version", "")[1:]
	payload := "{ \"b\" : 1.50e+01 ,\r\n \"a\" : \"\\u00e9\\/\" }"
	e := sealed(header, payload)
	seal := string(sealJSON(e.Seal))
	var cases []messageCase
	add := func(name, doc, expect string) {
		c := messageCase{Name: name, PublicKey: sender.Public().String(), Expect: expect}
		c.setDocument([]byte(doc))
		if expect == ok {
			p := encode64(e.Payload)
			c.Payload, c.Binary = &p, encode64(e.AppendBinary(nil))
		}
		cases = append(cases, c)
	}
	add("members in any order", `{"seal":`+seal+`,"payload":`+payload+`,"envelope":`+header+`}`, ok)
	add("white space around the values is not sealed", " {\n \"payload\" : \t"+payload+" \r\n, \"envelope\" :\n"+header+" , \"seal\" : "+seal+"\n}\n", ok)
	add("outer names with escapes", `{"\u0065nvelope":`+header+`,"payl\u006fad":`+payload+`,"seal":`+seal+`}`, ok)
	add("members of the seal in any order, spaced", `{"envelope":`+header+`,"payload":`+payload+`,"seal": { "path" : [ ], "leaves":1 , "index":0,"sig":"`+encode64(e.Seal.Sig[:])+`" } }`, ok)
	add("payload written anew, equal in meaning", `{"envelope":`+header+`,"payload":{"b":15.0,"a":"\u00e9\/"},"seal":`+seal+`}`, "bad_seal")
	add("header written anew, equal in meaning", `{"envelope":`+headerWith()+`,"payload":`+payload+`,"seal":`+seal+`}`, "bad_seal")
	add("sealed, then the seal left out", `{"envelope":`+header+`,"payload":`+payload+`}`, "bad_seal")
	return cases
}

// payloads are good messages; a reader must hand on exactly these bytes.
func payloads() []messageCase {
	var cases []messageCase
	for _, p := range []struct{ name, payload string }{
		{"absent", ""}, {"null", "null"}, {"empty object", "{}"}, {"empty array", "[]"}, {"empty string", `""`}, {"zero", "0"}, {"minus zero", "-0"}, {"false", "false"},
		{"white space inside", "{ \"a\" :\t[ 1 ,\n2 ] }"}, {"white space in an empty object", "{ }"}, {"members out of order", `{"b":1,"a":2}`}, {"escapes", `"\u0041\/\"\\\b\f\n\r\t\u0000"`},
		{"integer of 40 digits", "1234567890123456789012345678901234567890"}, {"beyond 2^53", "9007199254740993"}, {"number with exponent", "-1.50E+010"},
		{"beyond a float", "1e400"}, {"tiny", "1e-400"}, {"long fraction", "0.1000000000000000055511151231257827"}, {"unicode", "\"\u5408\u540c\u5ba1\u67e5 \u00e9 e\u0301 \U0001f916\""},
		{"surrogate pair by escapes", `"\ud83e\udd16"`}, {"direction marks in a value", "\"a\u202eb\u2066c\""}, {"line separators", "\"\u2028\u2029\""}, {"no-break space and byte order mark in a value", "\"\u00a0\ufeff\""},
		{"noncharacter", "\"\uffff\U0010ffff\""}, {"DEL", "\"\x7f\""}, {"name is empty", `{"":0}`}, {"names of the envelope", `{"envelope":{},"payload":null,"seal":{}}`}, {"__proto__", `{"__proto__":1}`}, {"HTML", `"<script>&amp;"`},
	} {
		e := sealed(headerWith(), p.payload)
		c := bothForms(p.name, e, ok)
		text := encode64(e.Payload)
		c.Payload, c.Leaf = &text, leafHex(e)
		cases = append(cases, c)
	}
	limit := messageCase{Name: "payload of exactly max_payload bytes", MaxPayload: 16, Expect: ok}
	over := messageCase{Name: "payload one byte over max_payload", MaxPayload: 16, Expect: "too_large"}
	for _, c := range []*messageCase{&limit, &over} {
		payload := `"` + strings.Repeat("x", 14) + `"`
		if c == &over {
			payload = `"` + strings.Repeat("x", 15) + `"`
		}
		e := sealed(headerWith(), payload)
		c.setDocument(document(headerWith(), payload, e.Seal))
		c.Binary = encode64(e.AppendBinary(nil))
		cases = append(cases, *c)
	}
	return cases
}

// binaries are cases that only the binary form can have.
func binaries() []messageCase {
	h := headerWith()
	e := sealed(h, "{}")
	good := e.AppendBinary(nil)
	seal := good[4+len(h) : len(good)-2]
	join := func(headerLen, sealLen int, parts ...string) string {
		return string([]byte{byte(headerLen >> 8), byte(headerLen), byte(sealLen >> 8), byte(sealLen)}) + strings.Join(parts, "")
	}
	key := sender.Public().String()
	var cases []messageCase
	add := func(name, b, expect string) {
		cases = append(cases, messageCase{Name: name, Binary: encode64([]byte(b)), Expect: expect})
	}
	add("unsealed", join(len(h), 0, h, "{}"), ok)
	add("unsealed, no payload", join(len(h), 0, h), ok)
	add("one byte", "\x00", "malformed")
	add("three bytes", "\x00\x00\x00", "malformed")
	add("lengths zero", "\x00\x00\x00\x00", "malformed")
	add("header announced longer than all", join(len(h)+1, 0, h), "malformed")
	add("seal announced longer than all", join(len(h), 68, h, string(seal[:67])), "malformed")
	add("lengths at their limit", join(0xffff, 0xffff, h), "malformed")
	for _, n := range []int{1, 64, 67} {
		add(fmt.Sprintf("seal of %d bytes", n), join(len(h), n, h, string(seal[:n]), "{}"), "malformed")
	}
	add("seal with half a hash", join(len(h), 84, h, string(seal), strings.Repeat("\x00", 16), "{}"), "malformed")
	add("seal with nine hashes", join(len(h), 68+9*32, h, string(seal[:64]), "\x00\x00\x01\x00", strings.Repeat("\x00", 9*32), "{}"), "malformed")
	add("white space before the header", join(len(h)+1, 0, " "+h), "malformed")
	add("white space after the header", join(len(h)+1, 0, h+"\n"), "malformed")
	for i := range good[:4+len(h)+len(seal)] {
		if i%61 == 2 {
			add(fmt.Sprintf("cut off after %d bytes", i), string(good[:i]), "malformed")
		}
	}
	for _, p := range []struct{ name, payload string }{
		{"payload is not JSON", "\x00\xff"}, {"payload with duplicate names", `{"a":1,"a":2}`}, {"payload with white space around it", " {}\n"}, {"payload of two values", "1 2"},
	} {
		e := sealed(h, p.payload)
		text := encode64(e.Payload)
		cases = append(cases, messageCase{
			Name: p.name + ": links carry any bytes", PublicKey: key, Binary: encode64(e.AppendBinary(nil)), Expect: ok, Payload: &text, Leaf: leafHex(e),
		})
	}
	return cases
}
