package vectors

import (
	"fmt"
	"strings"

	"github.com/agent-reach/agent-reach/envelope"
)

const plainTime = `"2025-06-05T06:12:33Z"`

// headerWith is a good request's header with members replaced, added, or (value "") left out: name, value, name, value\u2026
func headerWith(changes ...string) string {
	members := []string{
		"version", `"3.0"`, "msg_id", `"m-1"`, "msg_type", `"request"`, "source_agent", `"order-agent"`,
		"target_capability", `"stock.query"`, "timestamp_utc", plainTime,
	}
next:
	for i := 0; i < len(changes); i += 2 {
		for j := 0; j < len(members); j += 2 {
			if members[j] == changes[i] {
				members[j+1] = changes[i+1]
				continue next
			}
		}
		members = append(members, changes[i], changes[i+1])
	}
	var parts []string
	for j := 0; j < len(members); j += 2 {
		if members[j+1] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", members[j], members[j+1]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func quoted(s string) string { return `"` + s + `"` }

func headers() []messageCase {
	var cases []messageCase
	for _, list := range []func(add func(name, header, expect string)){
		goodHeaders, badIDs, badCapabilities, badTokens, badVersions, badNumbers, badTimes, badTypes, badChains, badHeaderJSON,
	} {
		list(func(name, header, expect string) {
			c := bothForms(ascii(name), sealed(header, `{}`), expect)
			if expect == ok {
				c.Decoded = decode(header)
			}
			cases = append(cases, c)
		})
	}
	return cases
}

// decode reads a good header with the code under test: the check of such a case is that both implementations agree.
func decode(header string) *decoded {
	e, _, err := envelope.Decode([]byte(`{"envelope":`+header+`}`), 0)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", header, err))
	}
	h := e.Header
	at, _ := h.Timestamp.MarshalText()
	return &decoded{h.TraceID, h.TTLSec, h.Priority, string(at), append([]string{}, h.Chain...), h.TargetAgent}
}

func goodHeaders(add func(name, header, expect string)) {
	add("plain", headerWith(), ok)
	add("every optional member", headerWith("trace_id", `"t-1"`, "traceparent", `"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`,
		"target_agent", `"stock-01"`, "ttl_sec", "86400", "priority", "1", "namespace", `"team.a"`, "conversation_id", `"c-1"`,
		"idempotency_key", `"k-1"`, "chain", `["a","b"]`, "persistent", "false"), ok)
	add("null counts as absent", headerWith("trace_id", "null", "target_agent", "null", "ttl_sec", "null", "priority", "null",
		"chain", "null", "persistent", "null", "namespace", "null", "error", "null"), ok)
	add("an empty string counts as absent", headerWith("trace_id", `""`, "target_agent", `""`, "namespace", `""`, "traceparent", `""`), ok)
	add("an unknown member is kept and ignored", headerWith("x-colour", "{\"deep\":[1,2.5e3,\"\u00e9\",null]}"), ok)
	add("members differ in case: unknown", headerWith("TTL_SEC", `"whatever"`, "Version", "4"), ok)
	add("a name and a value written with escapes", `{"vers\u0069on":"3\u002e0",`+headerWith("version", "")[1:], ok)
	add("white space inside", "{ \t\r\n\"version\" : \"3.0\" ,"+headerWith("version", "")[1:], ok)
	add("chain of 16", headerWith("chain", "["+strings.Repeat(`"a",`, 15)+`"a"]`), ok)
	add("longest ids", headerWith("source_agent", quoted("A"+strings.Repeat("-", 127)), "msg_id", quoted(strings.Repeat("~", 128)),
		"target_capability", quoted("0"+strings.Repeat(":", 127))), ok)
	for _, r := range []string{"*", "1", "1.2", "1.2.3", "^1.2", "^0.0.1", "0.x", "999999999", "~1.2.3", ">=1.2", "1.x", "1.2.x"} {
		add("range "+r, headerWith("target_capability", quoted("stock.query@"+r)), ok)
	}
	for _, at := range []string{"2025-06-05T06:12:33.5Z", "2025-06-05T06:12:33.123456789Z", "2025-06-05T06:12:33+00:00", "2024-02-29T23:59:59.999Z"} {
		add("time "+at, headerWith("timestamp_utc", quoted(at)), ok)
	}
	pad := envelope.MaxHeader - len(headerWith("pad", `""`))
	add(fmt.Sprintf("%d bytes", envelope.MaxHeader), headerWith("pad", quoted(strings.Repeat("x", pad))), ok)
	add(fmt.Sprintf("%d bytes", envelope.MaxHeader+1), headerWith("pad", quoted(strings.Repeat("x", pad+1))), "too_large")
}

func badIDs(add func(name, header, expect string)) {
	for _, id := range []struct{ name, text string }{
		{"Cyrillic o", "\u043erder-agent"}, {"Greek o", "\u03bfrder-agent"}, {"full-width letter", "\uff4frder-agent"},
		{"right-to-left override", "order\u202eagent"}, {"right-to-left mark", "order-agent\u200f"}, {"isolate", "\u2066order-agent\u2069"},
		{"zero-width space", "order\u200bagent"}, {"zero-width joiner", "order\u200dagent"}, {"soft hyphen", "order\u00adagent"},
		{"combining accent", "orde\u0301r"}, {"precomposed e acute", "ord\u00e9r"}, {"full-width digit", "agent-\uff11"}, {"non-breaking hyphen", "order\u2011agent"},
		{"space", "order agent"}, {"leading space", " order"}, {"trailing newline", `order\n`}, {"tab", `order\tagent`}, {"NUL", `order\u0000`},
		{"DEL", `order\u007f`}, {"slash", "order/agent"}, {"backslash", `order\\agent`}, {"colon", "order:agent"}, {"at sign", "order@agent"},
		{"percent", "order%2fagent"}, {"star", "order*"}, {"quote", `order\"`}, {"comma", "a,b"}, {"plus", "a+b"}, {"tilde", "~a"}, {"leading dot", ".order"},
		{"two dots", ".."}, {"leading hyphen", "-order"}, {"leading underscore", "_order"}, {"129 bytes", strings.Repeat("a", 129)}, {"emoji", "order\U0001f916"},
	} {
		add("source_agent with "+id.name, headerWith("source_agent", quoted(id.text)), "malformed")
	}
	for _, field := range []string{"target_agent", "to_node", "namespace", "vouched_by"} {
		add(field+" with a homoglyph", headerWith(field, "\"n\u043ede\""), "malformed")
		add(field+" with a separator", headerWith(field, `"node/a"`), "malformed")
	}
	add("source_agent missing", headerWith("source_agent", ""), "malformed")
	add("source_agent empty", headerWith("source_agent", `""`), "malformed")
	add("source_agent null", headerWith("source_agent", "null"), "malformed")
	add("source_agent a number", headerWith("source_agent", "7"), "malformed")
	add("target_agent an object", headerWith("target_agent", "{}"), "malformed")
}

func badCapabilities(add func(name, header, expect string)) {
	for _, name := range []string{
		"Stock.Query", "sto\u0441k.query", "stock query", "stock/query", "stock\u202equery", ".query", ":query", "_query", "-query", "@1.2",
		`stock.query\n`, "stock.query@", "stock.query@@1", "stock.query@latest", "stock.query@1.2.3.4", "stock.query@^", "stock.query@>1.2", "stock.query@v1",
		"stock.query@1.2 || 2", "stock.query@\uff11.\uff12", "stock.query@\u0663", `stock.query@1.2.3\n`, "stock.query@1.2.3-beta", "stock.query@^1.x", "stock.query@-1",
		"stock.query@1.*", "stock.query@01", "stock.query@1.02.3", "stock.query@1.", "stock.query@1.2.3.x", "stock.query@.x", "stock.query@^*", "stock.query@=1.2.3", "stock.query@x", "stock.query@1234567890", "stock.query @1", strings.Repeat("a", 129), strings.Repeat("a", 129) + "@1",
	} {
		add("target_capability "+name[:min(len(name), 24)], headerWith("target_capability", quoted(name)), "malformed")
	}
}

func badTokens(add func(name, header, expect string)) {
	add("msg_id missing", headerWith("msg_id", ""), "malformed")
	add("msg_id a number", headerWith("msg_id", "17"), "malformed")
	for _, field := range []string{"msg_id", "trace_id", "traceparent", "in_reply_to", "conversation_id", "idempotency_key"} {
		for _, s := range []struct{ name, text string }{
			{"a space", "a b"}, {"e acute", "\u00e9"}, {"a newline", `a\n`}, {"DEL", `a\u007f`}, {"129 bytes", strings.Repeat("x", 129)}, {"a direction mark", "a\u200e"},
		} {
			add(field+" with "+s.name, headerWith(field, quoted(s.text)), "malformed")
		}
	}
}

func badVersions(add func(name, header, expect string)) {
	add("version missing", headerWith("version", ""), "malformed")
	add("version null", headerWith("version", "null"), "malformed")
	add("version a number", headerWith("version", "3.0"), "malformed")
	for _, v := range []string{"3", "3.1", "2.0", " 3.0", "3.0 ", "\uff13.0"} {
		add("version "+v, headerWith("version", quoted(v)), "unsupported")
	}
}

func badNumbers(add func(name, header, expect string)) {
	for _, n := range []string{"0", "-0", "-1", "86401", "1.0", "1e1", `"60"`, "true", "[60]", "99999999999999999999", "1E400"} {
		add("ttl_sec "+n, headerWith("ttl_sec", n), "malformed")
	}
	for _, n := range []string{"0", "10", "-5", "5.5", `"5"`, "{}"} {
		add("priority "+n, headerWith("priority", n), "malformed")
	}
	for _, b := range []string{`"true"`, "1", "0", "{}"} {
		add("persistent "+b, headerWith("persistent", b), "malformed")
	}
}

func badTimes(add func(name, header, expect string)) {
	add("timestamp_utc missing", headerWith("timestamp_utc", ""), "malformed")
	add("timestamp_utc null", headerWith("timestamp_utc", "null"), "malformed")
	add("timestamp_utc a number", headerWith("timestamp_utc", "1749103953"), "malformed")
	for _, at := range []string{
		"", "2025-06-05T06:12:33", "2025-06-05T06:12:33+08:00", "2025-06-05T06:12:33-00:30", "2025-06-05 06:12:33Z", "2025-06-05t06:12:33z", "2025-06-05T06:12:33z",
		"2025-06-05T6:12:33Z", "2025-06-05T06:12:33,5Z", "2025-06-05T06:12:33.Z", "2025-06-05T06:12Z", "2025-06-05", "20250605T061233Z", "2025-6-5T06:12:33Z",
		"2025-06-31T06:12:33Z", "2025-02-29T06:12:33Z", "2025-13-01T06:12:33Z", "2025-06-05T24:00:00Z", "2025-06-05T06:60:33Z", "2025-06-05T06:12:60Z",
		" 2025-06-05T06:12:33Z", "2025-06-05T06:12:33Z ", `2025-06-05T06:12:33Z\n`, "2025-06-05T06:12:33ZZ", "2025-06-05T06:12:33+0000", "2025-06-05T06:12:33+00",
		"\uff12025-06-05T06:12:33Z", "2025-W23-4T06:12:33Z", "now",
	} {
		add("time "+at, headerWith("timestamp_utc", quoted(at)), "malformed")
	}
}

func badTypes(add func(name, header, expect string)) {
	add("request for a capability", headerWith("target_agent", ""), ok)
	add("request for an agent", headerWith("target_capability", "", "target_agent", `"stock-01"`), ok)
	add("request without target", headerWith("target_capability", ""), "malformed")
	add("broadcast", headerWith("msg_type", `"broadcast"`), ok)
	add("broadcast without capability", headerWith("msg_type", `"broadcast"`, "target_capability", "", "target_agent", `"stock-01"`), "malformed")
	response := []string{"msg_type", `"response"`, "in_reply_to", `"m-0"`, "target_agent", `"order-agent"`}
	add("response", headerWith(append(response, "status", `"ok"`)...), ok)
	add("response with an error", headerWith(append(response, "status", `"error"`, "error", `{"code":"sold_out","text":"gone","until":[1]}`)...), ok)
	add("response without status", headerWith(response...), "malformed")
	add("response with status OK", headerWith(append(response, "status", `"OK"`)...), "malformed")
	add("response to nothing", headerWith("msg_type", `"response"`, "status", `"ok"`), "malformed")
	add("cancel", headerWith("msg_type", `"cancel"`, "in_reply_to", `"m-0"`), ok)
	add("cancel of nothing", headerWith("msg_type", `"cancel"`), "malformed")
	for _, t := range []string{"register", "heartbeat", "unregister"} {
		add(t, headerWith("msg_type", quoted(t), "target_capability", "", "to_node", `"node-a"`), ok)
		add(t+" to no node", headerWith("msg_type", quoted(t), "target_capability", ""), "malformed")
	}
	for _, t := range []string{"", "Request", "REQUEST", "subscribe", "request "} {
		add("msg_type "+quoted(t), headerWith("msg_type", quoted(t)), "malformed")
	}
	add("msg_type missing", headerWith("msg_type", ""), "malformed")
}

func badChains(add func(name, header, expect string)) {
	add("chain of 17", headerWith("chain", "["+strings.Repeat(`"a",`, 16)+`"a"]`), "loop")
	for _, chain := range []string{`"a"`, `{}`, `[1]`, `[null]`, `[""]`, `["a b"]`, "[\"\u0430\"]", `[["a"]]`, `["a",]`} {
		add("chain "+chain, headerWith("chain", chain), "malformed")
	}
}

func badHeaderJSON(add func(name, header, expect string)) {
	for _, h := range []string{`{}`, `[]`, `null`, `"x"`, `7`} {
		add("header is "+h, h, "malformed")
	}
	plain := strings.TrimSuffix(headerWith(), "}")
	for _, end := range []struct{ name, text string }{
		{"a known name twice", `,"msg_id":"m-1"}`}, {"an unknown name twice", `,"x":1,"x":1}`}, {"a name twice, once with escapes", `,"msg_\u0069d":"m-2"}`},
		{"a name twice inside an unknown member", `,"x":{"a":1,"a":1}}`}, {"a lone surrogate", `,"x":"\ud800"}`}, {"invalid UTF-8", ",\"x\":\"\xff\"}"},
		{"invalid UTF-8 in a name", ",\"\xc0\xaf\":1}"}, {"NaN", `,"x":NaN}`}, {"a trailing comma", `,}`}, {"a comment", `/* */}`}, {"single quotes", `,'x':1}`},
		{"a raw tab in a string", ",\"x\":\"\t\"}"}, {"a second object", `}{}`},
	} {
		add("header with "+end.name, plain+end.text, "malformed")
	}
}
