package envelope_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

// TestArticlesDescriptor is the descriptor of the published article, with nothing filled in that it says itself.
func TestArticlesDescriptor(t *testing.T) {
	d, err := envelope.DecodeDescriptor([]byte(`{"agent_id": "legal-review-agent-01", "display_name": "合同审查助手",
		"capabilities": [{"name": "contract.clause_check", "version": "2.1.0",
			"input_schema": {"type": "object", "properties": {"contract_text": {"type": "string"}}, "required": ["contract_text"]},
			"output_schema": {"type": "object"}}],
		"endpoint": {"type": "http", "url": "http://10.0.3.21:8080/rpc", "prefer_proxy": true},
		"heartbeat_interval_sec": 30, "max_concurrent_requests": 10, "current_load": 3}`))
	ok(t, err)
	if d.AgentID != "legal-review-agent-01" || d.DisplayName != "合同审查助手" || len(d.Capabilities) != 1 || !d.Endpoint.PreferProxy || d.CurrentLoad != 3 {
		t.Errorf("%+v", d)
	}
}

func TestDescriptorDefaults(t *testing.T) {
	d, err := envelope.DecodeDescriptor([]byte(`{"agent_id":"a","capabilities":[]}`))
	ok(t, err)
	if d.Endpoint.Type != envelope.LinkEndpoint || d.HeartbeatInterval().Seconds() != 30 || d.MaxConcurrentRequests != 10 {
		t.Errorf("%+v", d)
	}
}

func TestErrorsOfDescriptors(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for member, words := range map[string][]string{
		`"agent_id":"p\u0430y"`:                                    {"malformed", "agent_id has the character", "U+0430"},
		`"agent_id":""`:                                            {"malformed", "agent_id is empty"},
		`"agent_id":7`:                                             {"malformed", `"/agent_id": a number where a string is wanted`},
		`"colour":1`:                                               {"malformed", `"/colour": no member of that name is known here`},
		`"display_name":"a\u202eb"`:                                {"malformed", "display_name has the character", "U+202E"},
		`"display_name":"a\u0000b"`:                                {"malformed", "display_name has the character", "U+0000"},
		`"display_name":"` + long + `"`:                            {"too_large", "display_name is 3000 bytes; the limit is 256"},
		`"heartbeat_interval_sec":-1`:                              {"malformed", "heartbeat_interval_sec is -1; it must be 1 to 86400"},
		`"heartbeat_interval_sec":1.5`:                             {"malformed", "/heartbeat_interval_sec", "an integer"},
		`"max_concurrent_requests":100001`:                         {"malformed", "max_concurrent_requests is 100001"},
		`"current_load":-0.5`:                                      {"malformed", "current_load is -0.5"},
		`"current_load":"high"`:                                    {"malformed", `"/current_load": a string where a number is wanted`},
		`"public_key":"AAAA"`:                                      {"malformed", "/public_key", "base64 of 32 bytes"},
		`"public_key":"` + strings.Repeat("A", 43) + `="`:          {"malformed", "small order"},
		`"endpoint":{"type":"carrier-pigeon"}`:                     {"unsupported", `endpoint type is "carrier-pigeon"; this node serves link and http`},
		`"endpoint":{"type":"http"}`:                               {"malformed", `endpoint.url is ""`, "http://10.0.3.21:8080/rpc"},
		`"endpoint":{"type":"http","url":"ftp://x/"}`:              {"malformed", `endpoint.url is "ftp://x/"`},
		`"endpoint":{"type":"http","url":"http:///x"}`:             {"malformed", "endpoint.url"},
		`"endpoint":{"type":"http","url":"http://:80/x"}`:          {"malformed", "endpoint.url"},
		`"endpoint":{"type":"http","url":"http://x/` + long + `"}`: {"too_large", "endpoint.url is 3009 bytes; the limit is 2048"},
		`"endpoint":{"type":"http","url":"http://x/\u202e"}`:       {"", ""},
		`"endpoint":{"type":"http","url":"http://x/","probe_url":"file:///etc/passwd"}`: {"malformed", "endpoint.probe_url"},
		`"capabilities":{}`: {"malformed", `"/capabilities": an object where an array is wanted`},
	} {
		doc := `{"agent_id":"a",` + member + `}`
		if strings.HasPrefix(member, `"agent_id"`) {
			doc = `{` + member + `}`
		}
		d, err := envelope.DecodeDescriptor([]byte(doc))
		if words[0] == "" {
			ok(t, err)
			continue
		}
		want(t, err, envelope.Code(words[0]), words[1:]...)
		if d != nil {
			t.Errorf("%s: something comes with the error", member)
		}
	}
}

// TestPasswordsInURLsDoNotPrint: not in the record, and not in the error either.
func TestPasswordsInURLsDoNotPrint(t *testing.T) {
	for _, url := range []string{"http://user:hunter2@x/", "ftp://user:hunter2@x/", "http://hunter2@x/"} {
		_, err := envelope.DecodeDescriptor([]byte(`{"agent_id":"a","endpoint":{"type":"http","url":"` + url + `"}}`))
		want(t, err, envelope.Malformed, "carries a password")
		if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
}

// TestBadCapabilitiesAreAllNamed: one answer tells everything that is wrong.
func TestBadCapabilitiesAreAllNamed(t *testing.T) {
	_, err := envelope.DecodeDescriptor([]byte(`{"agent_id":"shop","capabilities":[
		{"name":"good","version":"1.0.0"},
		{"name":"Bad","version":"1.0.0"},
		{"name":"versionless","version":"1"},
		{"name":"good","version":"2.0.0"},
		{"name":"effect","version":"1.0.0","effect":"maybe"},
		{"name":"tags","version":"1.0.0","tags":["a\u202eb"]},
		{"name":"many.tags","version":"1.0.0","tags":[` + strings.Repeat(`"x",`, 32) + `"x"]},
		{"name":"described","version":"1.0.0","description":"` + strings.Repeat("x", 8193) + `"},
		{"name":"schema","version":"1.0.0","input_schema":"` + strings.Repeat("x", envelope.MaxSchema) + `"},
		{"name":"` + strings.Repeat("\u0436", 10_000) + `","version":"1.0.0"},
		{"name":"fine","version":"1.0.0-rc.1","effect":"read","tags":["a"],"input_schema":null}]}`))
	want(t, err, envelope.Malformed, "9 of the capabilities of shop cannot be registered; nothing was", "; and 1 more")
	e := envelope.AsError(err)
	for i, words := range []struct{ pointer, text string }{
		{"/capabilities/1", `"Bad": name has the character 'B' (U+0042)`},
		{"/capabilities/2", `"versionless": version "1" is not of the form 1.2.3`},
		{"/capabilities/3", `"good": good is declared at capabilities[0] already`},
		{"/capabilities/4", `"effect": effect is "maybe"; it must be read, idempotent or unsafe`},
		{"/capabilities/5", `tag has the character '\u202e' (U+202E)`},
		{"/capabilities/6", `33 tags; the limit is 32`},
		{"/capabilities/7", `description is 8193 bytes; the limit is 8192`},
		{"/capabilities/8", `schema is 65538 bytes; the limit is 65536`},
	} {
		if p := e.Places[i]; p.Pointer != words.pointer || !strings.Contains(p.Text, words.text) {
			t.Errorf("place %d is %q: %s; want %q: %s", i, p.Pointer, p.Text, words.pointer, words.text)
		}
	}
	if len(err.Error()) > 3000 {
		t.Errorf("the error is %d bytes long", len(err.Error()))
	}
}

func TestTooManyCapabilities(t *testing.T) {
	list := make([]string, envelope.MaxCapabilities+1)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"c%d","version":"1.0.0"}`, i)
	}
	_, err := envelope.DecodeDescriptor([]byte(`{"agent_id":"a","capabilities":[` + strings.Join(list, ",") + `]}`))
	want(t, err, envelope.TooLarge, "513 capabilities; the limit is 512")
	_, err = envelope.DecodeDescriptor([]byte(`{"agent_id":"a","capabilities":[` + strings.Join(list[1:], ",") + `]}`))
	ok(t, err)
}

func TestEffects(t *testing.T) {
	for effect, repeatable := range map[envelope.Effect]bool{envelope.Read: true, envelope.Idempotent: true, envelope.Unsafe: false, "": false, "other": false} {
		if effect.Repeatable() != repeatable {
			t.Errorf("%q", effect)
		}
	}
}

func TestOfferOfARecord(t *testing.T) {
	r := &envelope.Record{Offers: []envelope.Offer{{Capability: &envelope.Capability{Name: "a"}}, {Capability: &envelope.Capability{Name: "a_"}}}}
	if r.Offer("a_") != &r.Offers[1] || r.Offer("a") != &r.Offers[0] || r.Offer("b") != nil || r.Offer("A") != nil {
		t.Error("wrong offer")
	}
}
