package scenario

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/sdk"
)

// strangeNames look like good ones, or could be taken apart in two ways; each with what the error must name.
var strangeNames = map[string]string{
	"st\u043eck":          "U+043E", // Cyrillic o
	"stock\u202ekcots":    "U+202E", // right-to-left override
	"stock\u200b":         "U+200B", // zero-width space
	"ﬁnance":              "U+FB01", // ligature
	"stoc\u006b\u0301":    "U+0301", // combining accent
	"stock query":         "U+0020",
	"stock/query":         "U+002F",
	"stock\\u0000":        "U+0000", // a JSON escape
	"stock\\n":            "U+000A",
	"stock#1":             "U+0023",
	"stock?x=1":           "U+003F",
	"stock%2fquery":       "U+0025",
	"../stock":            "",
	"-stock":              "",
	"":                    "",
	"ｓｔｏｃｋ":               "U+FF53", // full width
	"stock\\ud83d\\ude00": "U+1F600",
}

// TestCase33UnicodeAndSeparators: look-alikes, direction marks and separators are refused wherever a name can stand, over HTTP and over a link,
// with an error that names the character.
func TestCase33UnicodeAndSeparators(t *testing.T) {
	n := startNode(t, nil)
	serveEcho(t, n, "echo", "echo.say")
	v := registered(t, n, "voice")
	l, err := v.dial(nil)
	must(t, err)
	for name, character := range strangeNames {
		quoted := `"` + name + `"`
		if name == "" {
			continue // absent, or a name of its own error below
		}
		for _, field := range []string{"source_agent", "target_agent", "target_capability", "to_node"} {
			v.refused(l, v.headerWith("echo.say", field, quoted), field+" "+name, character)
		}
		if strings.ContainsAny(name, "/#?%-.") { // printable, and so good for a msg_id
			continue
		}
		for _, field := range []string{"msg_id", "trace_id", "conversation_id", "idempotency_key"} {
			v.refused(l, v.headerWith("echo.say", field, quoted), field+" "+name, character)
		}
		v.refused(l, v.headerWith("echo.say", "chain", `["good", `+quoted+`]`), "chain "+name, character)
	}
}

// refused sends a raw header over HTTP and over the link; both must say malformed, and name the character.
func (v *voice) refused(l *link.Link, header, what, character string) {
	v.t.Helper()
	r := v.post("/v1/messages", v.rawDocument(header, `{}`))
	if r.status != http.StatusBadRequest {
		v.t.Errorf("%s: HTTP %d %s", what, r.status, r.body)
		return
	}
	if p := r.problem(v.t); p.Code != envelope.Malformed || !strings.Contains(p.Detail, character) {
		v.t.Errorf("%s: %s %s", what, p.Code, p.Detail)
	}
	_, err := say(short(v.t), l, v.rawSeal(header, `{}`))
	if e := envelope.AsError(err); err == nil || e.Code != envelope.Malformed || !strings.Contains(e.Text, character) {
		v.t.Errorf("%s over a link: %v", what, err)
	}
}

// TestCase33StrangeNamesAreNotRegistered: nor do they get into the directory, by a registration, the operator's file or a link's hello.
func TestCase33StrangeNamesAreNotRegistered(t *testing.T) {
	n := startNode(t, nil)
	v := newVoice(t, n, "voice")
	l, err := v.dial(nil)
	must(t, err)
	for name, character := range strangeNames {
		for what, descriptor := range map[string]string{
			"agent_id":        `{"agent_id": "%s", "capabilities": [], "public_key": "` + v.key.Public().String() + `"}`,
			"/capabilities/1": `{"agent_id": "voice", "capabilities": [{"name": "good.one", "version": "1.0.0"}, {"name": "%s", "version": "1.0.0"}], "public_key": "` + v.key.Public().String() + `"}`,
		} {
			h := v.header(envelope.Register, "")
			h.ToNode = n.id(t)
			_, err := say(short(t), l, v.seal(h, fmt.Sprintf(descriptor, name)))
			e := envelope.AsError(err)
			said := e.Text + fmt.Sprint(e.Places)
			if err == nil || e.Code != envelope.Malformed || !strings.Contains(said, character) || !strings.Contains(said, what) {
				t.Errorf("%s %q registered: %v", what, name, err)
			}
		}
	}
	text := "agent_id: \"st\u043eck\"\ncapabilities: [{name: x, version: 1.0.0}]\nendpoint: {type: http, url: \"http://127.0.0.1:9\"}\n"
	must(t, os.WriteFile(n.file("strange.yaml"), []byte(text), 0o600))
	if _, stderr, exit := n.cli(t, "attach", "strange.yaml", "--config", "config.yaml"); exit != 1 || !strings.Contains(stderr, "U+043E") {
		t.Errorf("attach exited with %d: %s", exit, stderr)
	}
	bad := newVoice(t, n, "st\u043eck")
	if _, err := bad.dial(nil); err == nil {
		t.Error("a link in a strange name was accepted")
	}
	if got := n.agents(t); len(got) != 0 {
		t.Errorf("registered: %v", got)
	}
}

// TestCase33NoTwoShareAName: names that would be equal if they were joined reach whom they name, and are told apart by the permission table too.
func TestCase33NoTwoShareAName(t *testing.T) {
	n := newNode(t, settings{"auth.permissions_file": "rules.yaml"})
	rules := "rules:\n  - deny: {caller: \"a\", capability: \"b.c\", agent: \"x.a\"}\n  - allow: {caller: \"*\"}\n"
	must(t, os.WriteFile(n.file("rules.yaml"), []byte(rules), 0o600))
	n.start(t)
	caller := newAgent(t, n, "a.b")
	for _, pair := range [][2]string{{"x", "a.b.c"}, {"x.a", "b.c"}, {"x.a.b", "c"}, {"X", "a.b.c"}, {"x_a", "b_c"}, {"x_a_b", "c"}, {"x-a", "b:c"}, {"x-a-b", "c"}} {
		a := newAgent(t, n, pair[0])
		a.Handle(offer(pair[1]), func(context.Context, *sdk.Request) (any, error) { return pair[0] + " " + pair[1], nil })
		serve(t, a)
		var said string
		if err := caller.Call(short(t), pair[1], nil, &said, sdk.ToAgent(pair[0])); err != nil || said != pair[0]+" "+pair[1] {
			t.Errorf("%v answered %q, %v", pair, said, err)
		}
	}
	denied := newAgent(t, n, "a")
	for pair, allowed := range map[[2]string]bool{{"x.a", "b.c"}: false, {"x", "a.b.c"}: true, {"x_a", "b_c"}: true} {
		err := denied.Call(short(t), pair[1], nil, nil, sdk.ToAgent(pair[0]))
		if (err == nil) != allowed {
			t.Errorf("caller a, %v: %v", pair, err)
		}
	}
	twice := newVoice(t, n, "twice")
	h := twice.header(envelope.Register, "")
	h.ToNode = n.id(t)
	l, err := twice.dial(nil)
	must(t, err)
	_, err = say(short(t), l, twice.seal(h, `{"agent_id": "twice", "capabilities": [{"name": "b", "version": "1.0.0"}, {"name": "b", "version": "2.0.0"}], "public_key": "`+twice.key.Public().String()+`"}`))
	if e := envelope.AsError(err); err == nil || e.Code != envelope.Malformed {
		t.Errorf("one name twice in one descriptor: %v", err)
	}
}
