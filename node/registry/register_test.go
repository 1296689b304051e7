package registry

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

func wantError(t *testing.T, err error, code envelope.Code, words ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%v does not say %q", err, w)
		}
	}
}

func TestRegisterOverLink(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	s := a.mustRegister("", "stock.query")
	if s.State != envelope.Available || s.Score != 10 || s.AgentID != "stock" || s.NodeID != n.Node || s.NodeKey != n.key.Public() ||
		s.HeartbeatTimeoutSec != 90 || s.CapabilityTTLSec != 180 {
		t.Fatalf("%+v", s)
	}
	caller := newAgent(n, "orders")
	if s := caller.mustRegister(""); s.State != envelope.Available {
		t.Fatalf("a caller without a link: %+v", s)
	}
	got, err := caller.call(context.Background(), "stock.query", `{}`)
	if err != nil || string(got) != `"ok"` {
		t.Fatalf("%s, %v", got, err)
	}
	if log := n.log.String(); !strings.Contains(log, `msg="agent registered" id=stock capability_count=1`) {
		t.Fatal(log)
	}
}

// Case 7: one id, two keys: the first stays, the other is told so, nothing flaps.
func TestAnotherKeyForAKnownID(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	a.mustRegister("", "stock.query")
	before := n.Directory.Agent("stock")

	thief := newAgent(n, "stock")
	wantError(t, thief.open(), envelope.Conflict, a.key.Public().Fingerprint(), thief.key.Public().Fingerprint())
	_, err := thief.register(`,"endpoint":{"type":"http","url":"http://127.0.0.1:1/"}`, "stock.query")
	wantError(t, err, envelope.Conflict, a.key.Public().Fingerprint(), thief.key.Public().Fingerprint())
	if n.Directory.Agent("stock") != before {
		t.Fatal("the refused registration changed the record")
	}
	_, err = thief.tell(thief.says(envelope.Unregister, `{}`, nil))
	wantError(t, err, envelope.BadSeal)
	_, err = thief.heartbeat(`{}`)
	wantError(t, err, envelope.BadSeal)
}

func TestKeystoreEnrolment(t *testing.T) {
	n := newNode(t, func(c *Config) { c.FirstUse = false })
	a := newAgent(n, "stock")
	wantError(t, a.open(), envelope.UnknownAgent, n.Keys.Path(), a.key.Public().String())
	_, err := a.register("")
	wantError(t, err, envelope.UnknownAgent, n.Keys.Path())
	if err := os.WriteFile(n.Keys.Path(), []byte(`{"agents":{"stock":"`+a.key.Public().String()+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Keys.Reload(); err != nil {
		t.Fatal(err)
	}
	a.mustOpen().mustRegister("", "stock.query")
}

func TestRefusedRegistrations(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	other := newAgent(n, "other")
	for _, c := range []struct {
		name    string
		payload string
		change  func(*envelope.Header)
		code    envelope.Code
		says    string
	}{
		{"of another agent", other.descriptor(""), nil, envelope.Malformed, "registers itself only"},
		{"for another node", a.descriptor(""), func(h *envelope.Header) { h.ToNode = "elsewhere" }, envelope.Forbidden, "for node elsewhere"},
		{"no key", `{"agent_id":"stock","capabilities":[]}`, nil, envelope.Malformed, "no public_key"},
		{"too slow a heart", a.descriptor(`,"heartbeat_interval_sec":60`), nil, envelope.Malformed, "heartbeat_timeout_sec 90 is under 2 × heartbeat_interval_sec 60 = 120"},
		{"a clock behind", a.descriptor(""), func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(-10 * time.Minute) }, envelope.Expired, "NTP"},
		{"a clock ahead", a.descriptor(""), func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(10 * time.Minute) }, envelope.ClockSkew, "NTP"},
		{"a look-alike", strings.Replace(a.descriptor("", "stock.query"), "stock.query", "st\u043eck.query", 1), nil, envelope.Malformed, "U+043E"},
		{"unknown endpoint", a.descriptor(`,"endpoint":{"type":"carrier-pigeon"}`), nil, envelope.Unsupported, "carrier-pigeon"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := a.tell(a.says(envelope.Register, c.payload, c.change))
			wantError(t, err, c.code, c.says)
			if n.Directory.Len() != 0 || n.Keys.Len() != 0 || len(n.Views()) != 0 {
				t.Fatal("a refused registration left something behind")
			}
		})
	}
	alone := newAgent(n, "alone")
	_, err := alone.register("", "x")
	wantError(t, err, envelope.Malformed, "/v1/link")
}

// Case 34: one bad schema is named and refused; it harms nobody else, and the schemas beside it are given back.
func TestBadSchemasAreNamed(t *testing.T) {
	n := newNode(t, nil)
	good := newAgent(n, "good").mustOpen()
	good.mustRegister("", "stock.query")
	a := newAgent(n, "stock").mustOpen()
	fine := `{"type":["string","null"]}`
	_, err := a.tell(a.says(envelope.Register, strings.Replace(a.descriptor(""), `"capabilities":[]`, `"capabilities":[
		{"name":"a","version":"1.0.0","input_schema":`+fine+`},
		{"name":"b","version":"1.0.0","input_schema":{"type":"strnig"}},
		{"name":"c","version":"1.0.0","output_schema":{"$ref":"http://127.0.0.1:1/schema"}}]`, 1), nil))
	wantError(t, err, envelope.Malformed)
	places := envelope.AsError(err).Places
	if len(places) != 2 || places[0].Pointer != "/capabilities/1" || places[1].Pointer != "/capabilities/2" ||
		!strings.Contains(places[0].Text, "input_schema") || !strings.Contains(places[1].Text, "output_schema") {
		t.Fatalf("%+v", places)
	}
	id, err := n.Schemas.Add([]byte(fine))
	if err != nil {
		t.Fatal(err)
	}
	n.Schemas.Drop(id)
	if err := n.Schemas.Check(id, []byte(`"x"`)); !errors.Is(err, envelope.Internal) {
		t.Fatalf("the schema of a refused registration is still in the store: %v", err)
	}
	if n.state("good") != envelope.Available || n.state("stock") != envelope.Removed {
		t.Fatal("the refused registration touched another agent, or left itself behind")
	}
}

// All published tool definitions register as capabilities of one agent.
func TestRealTools(t *testing.T) {
	text, err := os.ReadFile("../../../shared/data/tools-github.json")
	if err != nil {
		t.Skip("the collection of real tool definitions is not beside this repository")
	}
	var tools []struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		InputSchema jsontext.Value `json:"input_schema"`
	}
	if err := json.Unmarshal(text, &tools); err != nil || len(tools) != 117 {
		t.Fatal(len(tools), err)
	}
	n := newNode(t, nil)
	a := newAgent(n, "github").mustOpen()
	d := envelope.Descriptor{AgentID: a.id, PublicKey: a.key.Public()}
	for _, tool := range tools {
		d.Capabilities = append(d.Capabilities, envelope.Capability{
			Name: tool.Name, Version: "1.0.0", InputSchema: tool.InputSchema, Description: tool.Description,
		})
	}
	payload, err := json.Marshal(&d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.tell(a.says(envelope.Register, string(payload), nil))
	if err != nil || s.State != envelope.Available {
		t.Fatal(s, err)
	}
	if offers := n.Directory.Agent("github").Offers; len(offers) != 117 {
		t.Fatal(len(offers))
	}
}
