package scenario

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

const maxPayload = 4 << 20

// inputNode is a node with an echo agent, and a voice that may call it but for "secret.read".
func inputNode(t *testing.T) (*node, *voice) {
	t.Helper()
	n := newNode(t, settings{"auth.permissions_file": "rules.yaml"})
	must(t, os.WriteFile(n.file("rules.yaml"), []byte("rules:\n  - deny: {caller: \"voice\", capability: \"secret.*\"}\n  - allow: {caller: \"*\"}\n"), 0o600))
	n.start(t)
	a := newAgent(t, n, "echo")
	a.Handle(sdk.Capability{Name: "echo.say", Version: "1.0.0", InputSchema: sdk.Schema(`{"type": ["object", "string"], "properties": {"n": {"type": "integer"}}}`)},
		func(context.Context, *sdk.Request) (any, error) { return "said", nil })
	a.Handle(offer("secret.read"), echo)
	serve(t, a)
	return n, registered(t, n, "voice")
}

// helps checks that an error is coded as it should be and says something useful.
func helps(t *testing.T, what string, e *envelope.Error, want envelope.Code) {
	t.Helper()
	if e.Code != want {
		t.Errorf("%s: %s, not %s", what, e, want)
	}
	if len(e.Text)+len(e.Hint) < 20 || e.Step == "" {
		t.Errorf("%s: no help in %q at %q, hint %q", what, e.Text, e.Step, e.Hint)
	}
}

// problemHelps is helps for an answer over HTTP.
func problemHelps(t *testing.T, what string, r reply, want envelope.Code) {
	t.Helper()
	p := r.problem(t)
	helps(t, what, &envelope.Error{Code: p.Code, Step: envelope.Step(p.Step), Text: p.Detail, Hint: p.Hint}, want)
	if r.status != want.HTTPStatus() || p.Status != r.status || p.Type != "urn:agent-reach:error:"+string(want) || p.Title == "" {
		t.Errorf("%s: HTTP %d with %s", what, r.status, r.body)
	}
}

// TestBadDocuments: what is no envelope at all.
func TestBadDocuments(t *testing.T) {
	_, v := inputNode(t)
	good := string(v.document(v.header(envelope.Request, "echo.say"), `{}`))
	deep := strings.Repeat("[", 11_000) + strings.Repeat("]", 11_000)
	for what, doc := range map[string]string{
		"nothing": "", "no JSON": "hello", "no object": "[1]", "cut off": good[:len(good)/2], "more after it": good + "x", "two of them": good + good,
		"a byte order mark": "\ufeff" + good, "no UTF-8": strings.Replace(good, "voice", "vo\xffce", 1),
		"a member of its own": strings.Replace(good, `{"envelope"`, `{"extra":1,"envelope"`, 1),
		"a member twice":      strings.Replace(good, `"payload":{}`, `"payload":{},"payload":{}`, 1),
		"a name twice within": strings.Replace(good, `"payload":{}`, `"payload":{"a":1,"a":2}`, 1),
		"a lone surrogate":    strings.Replace(good, `"payload":{}`, `"payload":"\ud800"`, 1),
		"NaN":                 strings.Replace(good, `"payload":{}`, `"payload":NaN`, 1),
		"too deep":            strings.Replace(good, `"payload":{}`, `"payload":`+deep, 1),
		"no envelope":         `{"payload": {}}`, "an envelope that is a text": `{"envelope": "x", "payload": {}}`,
		"a seal in a strange alphabet": strings.Replace(good, `"sig":"`, `"sig":"-`, 1), "a seal without end": strings.Replace(good, `"sig":"`, `"sig":"AAAA`, 1),
	} {
		problemHelps(t, what, v.post("/v1/messages", []byte(doc)), envelope.Malformed)
	}
	problemHelps(t, "another content type", v.post("/v1/messages", []byte(good), "Content-Type", "text/plain"), envelope.Malformed)
	if r := v.post("/v1/messages", []byte(good)); r.status != http.StatusOK {
		t.Errorf("after all that the good one: %s", r.body)
	}
}

// badHeaders are single members of a header that are wrong; "" removes the member.
var badHeaders = []struct {
	member, value string
	code          envelope.Code
}{
	{"version", "", envelope.Malformed}, {"version", `"2.0"`, envelope.Unsupported}, {"version", `3.0`, envelope.Malformed},
	{"msg_id", "", envelope.Malformed}, {"msg_id", `"` + strings.Repeat("x", 129) + `"`, envelope.Malformed}, {"msg_id", `7`, envelope.Malformed},
	{"msg_type", "", envelope.Malformed}, {"msg_type", `"shout"`, envelope.Malformed}, {"msg_type", `"response"`, envelope.Malformed},
	{"source_agent", "", envelope.Malformed}, {"source_agent", `"nobody-known"`, envelope.UnknownAgent}, {"source_agent", `"echo"`, envelope.BadSeal},
	{"target_capability", `"echo.say@not.a.range.at.all"`, envelope.Malformed}, {"target_capability", `"no.such"`, envelope.NoRoute},
	{"target_capability", `"echo.say@^9"`, envelope.NoRoute}, {"target_capability", `"secret.read"`, envelope.Forbidden},
	{"target_agent", `"no-such-agent"`, envelope.NoRoute}, {"target_agent", `"voice"`, envelope.NoRoute},
	{"persistent", `true`, envelope.Unsupported}, {"persistent", `"yes"`, envelope.Malformed}, {"namespace", `"other"`, envelope.Unsupported},
	{"ttl_sec", `0`, envelope.Malformed}, {"ttl_sec", `-1`, envelope.Malformed}, {"ttl_sec", `86401`, envelope.Malformed}, {"ttl_sec", `1.5`, envelope.Malformed},
	{"priority", `0`, envelope.Malformed}, {"priority", `10`, envelope.Malformed}, {"priority", `"high"`, envelope.Malformed},
	{"timestamp_utc", "", envelope.Malformed}, {"timestamp_utc", `"yesterday"`, envelope.Malformed}, {"timestamp_utc", `"2025-06-05T06:12:33+02:00"`, envelope.Malformed},
	{"timestamp_utc", `"2001-01-01T00:00:00Z"`, envelope.Expired}, {"timestamp_utc", `"2101-01-01T00:00:00Z"`, envelope.ClockSkew},
	{"chain", `["a", 7]`, envelope.Malformed}, {"chain", `"a"`, envelope.Malformed}, {"x", `"` + strings.Repeat("x", 4096) + `"`, envelope.TooLarge},
}

// TestBadHeaders: each wrong member is told with its code and a sentence that helps, over HTTP and over a link alike.
func TestBadHeaders(t *testing.T) {
	_, v := inputNode(t)
	l, err := v.dial(nil)
	must(t, err)
	for _, bad := range badHeaders {
		what := bad.member + " " + bad.value[:min(len(bad.value), 40)]
		problemHelps(t, what, v.post("/v1/messages", v.rawDocument(v.headerWith("echo.say", bad.member, bad.value), `{}`)), bad.code)
		want := bad.code
		if bad.member == "source_agent" && bad.value != "" {
			want = envelope.Forbidden // a link is of one agent
		}
		_, err := say(short(t), l, v.rawSeal(v.headerWith("echo.say", bad.member, bad.value), `{}`))
		if err == nil {
			t.Errorf("%s over a link was answered", what)
			continue
		}
		helps(t, what+" over a link", envelope.AsError(err), want)
	}
	if _, err := say(short(t), l, v.seal(v.header(envelope.Request, "echo.say"), `{}`)); err != nil {
		t.Errorf("after all that the good one: %v", err)
	}
}

// TestBadSeals: a message that its source did not say.
func TestBadSeals(t *testing.T) {
	_, v := inputNode(t)
	other := *v
	other.key = envelope.GenerateKey()
	header := func() envelope.Header { return v.header(envelope.Request, "echo.say") }
	good := string(v.document(header(), `{"n":1}`))
	problemHelps(t, "another key", v.post("/v1/messages", other.document(header(), `{}`)), envelope.BadSeal)
	problemHelps(t, "a changed payload", v.post("/v1/messages", []byte(strings.Replace(good, `{"n":1}`, `{"n":2}`, 1))), envelope.BadSeal)
	problemHelps(t, "white space in the payload", v.post("/v1/messages", []byte(strings.Replace(good, `{"n":1}`, `{"n": 1}`, 1))), envelope.BadSeal)
	problemHelps(t, "no seal", v.post("/v1/messages", []byte(good[:strings.Index(good, `,"seal"`)]+"}")), envelope.BadSeal)
	changed := func(change func(*envelope.Seal)) []byte {
		e := v.seal(header(), `{}`)
		change(e.Seal)
		doc, err := e.AppendDocument(nil, nil)
		must(t, err)
		return doc
	}
	for what, change := range map[string]func(*envelope.Seal){
		"a flipped bit":               func(s *envelope.Seal) { s.Sig[40] ^= 1 },
		"a path that leads elsewhere": func(s *envelope.Seal) { s.Index, s.Leaves, s.Path = 1, 2, make([]envelope.Hash, 1) },
		"a signature of nothing":      func(s *envelope.Seal) { s.Sig = [64]byte{} },
	} {
		problemHelps(t, what, v.post("/v1/messages", changed(change)), envelope.BadSeal)
	}
	beyond := changed(func(s *envelope.Seal) { s.Index, s.Leaves, s.Path = 9, 2, make([]envelope.Hash, 1) })
	problemHelps(t, "a place beyond the tree", v.post("/v1/messages", beyond), envelope.Malformed)
	if r := v.post("/v1/messages", []byte(good)); r.status != http.StatusOK {
		t.Errorf("the good one: %s", r.body)
	}
	problemHelps(t, "the good one again", v.post("/v1/messages", []byte(good)), envelope.Duplicate)
	problemHelps(t, "a payload that does not fit", v.ask("echo.say", `{"n":"x"}`), envelope.SchemaError)
}

// TestOversized: 4 MiB go through, one byte more does not, whichever way it comes.
func TestOversized(t *testing.T) {
	_, v := inputNode(t)
	l, err := v.dial(nil)
	must(t, err)
	text := func(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }
	if r := v.ask("echo.say", text(maxPayload)); r.status != http.StatusOK {
		t.Errorf("4 MiB: %d %s", r.status, r.body)
	}
	problemHelps(t, "4 MiB + 1", v.ask("echo.say", text(maxPayload+1)), envelope.TooLarge)
	problemHelps(t, "5 MiB", v.ask("echo.say", text(maxPayload+1<<20)), envelope.TooLarge)
	overLink := func(size int) error {
		_, err := say(short(t), l, v.seal(v.header(envelope.Request, "echo.say"), text(size)))
		return err
	}
	if err := overLink(maxPayload); err != nil {
		t.Errorf("4 MiB over a link: %v", err)
	}
	for _, size := range []int{maxPayload + 1, maxPayload + 1<<20} {
		err := overLink(size)
		if err == nil {
			t.Errorf("%d bytes over a link were taken", size)
			continue
		}
		helps(t, "too much over a link", envelope.AsError(err), envelope.TooLarge)
	}
	if err := overLink(100); err != nil {
		t.Errorf("the link is of no more use: %v", err)
	}
}

// TestBadLeases: what agents say of themselves to their node.
func TestBadLeases(t *testing.T) {
	n, v := inputNode(t)
	l, err := v.dial(nil)
	must(t, err)
	id := n.id(t)
	tell := func(kind envelope.MsgType, toNode, payload string) *envelope.Error {
		h := v.header(kind, "")
		h.ToNode = toNode
		_, err := say(short(t), l, v.seal(h, payload))
		return envelope.AsError(err)
	}
	with := func(more string) string { return strings.TrimSuffix(v.descriptor(), "}") + ", " + more + "}" }
	helps(t, "for another node", tell(envelope.Register, "another-node", v.descriptor()), envelope.Forbidden)
	helps(t, "somebody else's descriptor", tell(envelope.Register, id, strings.Replace(v.descriptor(), "voice", "other", 1)), envelope.Malformed)
	helps(t, "no descriptor", tell(envelope.Register, id, `7`), envelope.Malformed)
	helps(t, "a rare heartbeat", tell(envelope.Register, id, with(`"heartbeat_interval_sec": 60`)), envelope.Malformed)
	if e := tell(envelope.Register, id, with(`"heartbeat_interval_sec": 60`)); !strings.Contains(e.Text, "90") || !strings.Contains(e.Text, "120") {
		t.Errorf("no sums in: %s", e)
	}
	helps(t, "a strange endpoint", tell(envelope.Register, id, with(`"endpoint": {"type": "pigeon"}`)), envelope.Unsupported)
	helps(t, "an endpoint nowhere", tell(envelope.Register, id, with(`"endpoint": {"type": "http", "url": "nowhere"}`)), envelope.Malformed)
	helps(t, "a key that is none", tell(envelope.Register, id, strings.Replace(v.descriptor(), `"public_key": "`, `"public_key": "x`, 1)), envelope.Malformed)
	helps(t, "a heartbeat for what is not offered", tell(envelope.Heartbeat, id, `{"capabilities": ["no.such"]}`), envelope.Malformed)
	helps(t, "a heartbeat in words", tell(envelope.Heartbeat, id, `{"current_load": "low"}`), envelope.Malformed)
	stranger := newVoice(t, n, "stranger")
	h := stranger.header(envelope.Heartbeat, "")
	h.ToNode = id
	problemHelps(t, "a stranger's heartbeat", stranger.post("/v1/messages", stranger.document(h, `{}`)), envelope.UnknownAgent)
	h = v.header(envelope.Unregister, "")
	h.ToNode = id
	if r := v.do(http.MethodDelete, "/v1/agents/echo", v.document(h, `{}`)); r.problem(t).Code != envelope.Malformed {
		t.Errorf("one agent unregisters another: %d %s", r.status, r.body)
	}
	if a := n.agents(t); a["echo"].State != "available" || a["voice"].State != "available" {
		t.Errorf("after all that: %v", a)
	}
}

// TestBadPaths: what is asked of no path, or with no method, that there is.
func TestBadPaths(t *testing.T) {
	_, v := inputNode(t)
	for path, status := range map[string]int{
		"/": 404, "/v1": 404, "/v1/messages/": 404, "/v2/messages": 404, "/v1//messages": 404, "/v1/../v1/messages": 404, "/v1/agents/echo": 405, "/v1/link": 405,
		"/v1/capabilities": 405, "/metrics": 405,
	} {
		if r := v.post(path, []byte(`{}`)); r.status != status || r.problem(t).Hint == "" {
			t.Errorf("POST %s: %d %s", path, r.status, r.body)
		}
	}
	for path, status := range map[string]int{
		"/v1/agents?limit=0": 400, "/v1/agents?state=asleep": 400, "/v1/agents/no-such": 404, "/v1/agents/st%D0%BEck": 400, "/v1/messages": 405, "/v1/link": 400,
	} {
		if r := v.do(http.MethodGet, path, nil); r.status != status || r.problem(t).Hint == "" {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
		}
	}
}
