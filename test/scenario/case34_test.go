package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// TestCase34SchemaEdges: const is enforced, type arrays are understood, and an agent is never disturbed by what does not fit.
func TestCase34SchemaEdges(t *testing.T) {
	n := startNode(t, nil)
	var runs atomic.Int32
	a := newAgent(t, n, "edges")
	schemas := map[string]string{
		"const.string": `{"properties": {"v": {"const": "stock"}}, "required": ["v"]}`,
		"const.number": `{"properties": {"v": {"const": 1}}, "required": ["v"]}`,
		"const.object": `{"properties": {"v": {"const": {"a": [1, null]}}}, "required": ["v"]}`,
		"const.null":   `{"properties": {"v": {"const": null}}, "required": ["v"]}`,
		"type.array":   `{"properties": {"v": {"type": ["string", "null"]}}, "required": ["v"]}`,
		"type.integer": `{"properties": {"v": {"type": ["integer", "boolean"]}}, "required": ["v"]}`,
	}
	for name, schema := range schemas {
		a.Handle(sdk.Capability{Name: name, Version: "1.0.0", InputSchema: sdk.Schema(schema)}, func(context.Context, *sdk.Request) (any, error) {
			runs.Add(1)
			return nil, nil
		})
	}
	serve(t, a)
	caller := newAgent(t, n, "caller")
	good := map[string][]string{
		"const.string": {`"stock"`}, "const.number": {`1`, `1.0`, `10e-1`}, "const.object": {`{"a": [1.0, null]}`}, "const.null": {`null`},
		"type.array": {`"x"`, `null`, `""`}, "type.integer": {`1`, `2.0`, `true`},
	}
	bad := map[string][]string{
		"const.string": {`"Stock"`, `null`, `["stock"]`}, "const.number": {`2`, `"1"`, `true`}, "const.object": {`{"a": [1]}`, `{}`},
		"const.null": {`0`, `""`, `false`}, "type.array": {`1`, `[]`}, "type.integer": {`1.5`, `null`, `"1"`},
	}
	answered := int32(0)
	for name := range schemas {
		for _, v := range good[name] {
			answered++
			if err := caller.Call(short(t), name, jsontext.Value(`{"v": `+v+`}`), nil); err != nil {
				t.Errorf("%s, %s: %v", name, v, err)
			}
		}
		for _, v := range bad[name] {
			var e *envelope.Error
			err := caller.Call(short(t), name, jsontext.Value(`{"v": `+v+`}`), nil)
			if !errors.As(err, &e) || e.Code != envelope.SchemaError || len(e.Places) == 0 || e.Places[0].Pointer != "/v" || e.Hint == "" {
				t.Errorf("%s, %s: %v", name, v, err)
			}
		}
	}
	if got := runs.Load(); got != answered {
		t.Errorf("the agent ran %d times for %d good payloads", got, answered)
	}
}

// badSchemas cannot be registered; %s is where a server listens that must never be asked.
var badSchemas = map[string]string{
	"no such type":        `{"type": "strin"}`,
	"a number":            `7`,
	"a bad pattern":       `{"type": "string", "pattern": "("}`,
	"a reference nowhere": `{"$ref": "#/$defs/none"}`,
	"a reference outside": `{"$ref": "%s/schema.json"}`,
	"a schema elsewhere":  `{"$schema": "%s/meta.json", "type": "object"}`,
	"a file":              `{"$ref": "file:///etc/hostname"}`,
	"negative length":     `{"minLength": -1}`,
	"required is no list": `{"required": "v"}`,
	"an explosion":        "",
}

// explosion is a short schema whose check would take a time that doubles with each level.
func explosion() string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/a30", "$defs": {"a0": {"type": "object"}`)
	for i := range 30 {
		fmt.Fprintf(&b, `, "a%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`, i+1, i, i)
	}
	return b.String() + "}}"
}

// TestCase34BadSchemaHarmsNobodyElse: it is refused when it is registered, with its name; other agents, and what the agent had registered before, go on.
func TestCase34BadSchemaHarmsNobodyElse(t *testing.T) {
	n := startNode(t, nil)
	var fetched atomic.Int32
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(outside.Close)
	serveEcho(t, n, "other", "other.echo")
	serveEcho(t, n, "third", "bad.one")
	v := newVoice(t, n, "careless")
	l, err := v.dial(nil)
	must(t, err)
	caller := newAgent(t, n, "caller")
	for what, schema := range badSchemas {
		if strings.Contains(schema, "%s") {
			schema = fmt.Sprintf(schema, outside.URL)
		}
		if schema == "" {
			schema = explosion()
		}
		h := v.header(envelope.Register, "")
		h.ToNode = n.id(t)
		_, err := say(short(t), l, v.seal(h, fmt.Sprintf(`{"agent_id": "careless", "public_key": "%s", "capabilities": [
			{"name": "good.one", "version": "1.0.0"}, {"name": "bad.one", "version": "1.0.0", "input_schema": %s}]}`, v.key.Public(), schema)))
		e := envelope.AsError(err)
		if err == nil || e.Code != envelope.Malformed || len(e.Places) != 1 || e.Places[0].Pointer != "/capabilities/1" || !strings.Contains(e.Places[0].Text, "bad.one") {
			t.Errorf("%s: %v", what, err)
		}
		for _, capability := range []string{"other.echo", "bad.one"} {
			if err := caller.Call(short(t), capability, 1, nil); err != nil {
				t.Errorf("after %s, %s: %v", what, capability, err)
			}
		}
	}
	if _, there := n.agents(t)["careless"]; there || fetched.Load() != 0 {
		t.Errorf("registered: %v; the node fetched %d documents", there, fetched.Load())
	}
}

// tool is a published tool definition.
type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"input_schema"`
}

// publishedTools reads the tool definitions of a published server, which are no part of this repository.
func publishedTools(t *testing.T) (tools []tool) {
	t.Helper()
	folder := os.Getenv("SHARED")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared")
	}
	b, err := os.ReadFile(filepath.Join(folder, "data", "tools-github.json"))
	if err != nil {
		t.Skip("not run: tools-github.json is not here; set SHARED to the folder that holds data/tools-github.json")
	}
	must(t, json.Unmarshal(b, &tools))
	return tools
}

// TestCase34PublishedTools: all 117 real definitions register as the capabilities of one agent, and each can be called.
func TestCase34PublishedTools(t *testing.T) {
	tools := publishedTools(t)
	n := startNode(t, nil)
	a := newAgent(t, n, "github", sdk.WithMaxConcurrent(32))
	for _, one := range tools {
		a.Handle(sdk.Capability{Name: one.Name, Version: "1.0.0", Description: one.Description, InputSchema: one.InputSchema}, echo)
	}
	serve(t, a)
	if got := len(n.agents(t)["github"].Capabilities); got != 117 || len(tools) != 117 {
		t.Fatalf("%d of %d tools are capabilities", got, len(tools))
	}
	caller := newAgent(t, n, "caller")
	for _, one := range tools {
		payload := example(t, one.InputSchema)
		var out jsontext.Value
		if err := caller.Call(short(t), one.Name, payload, &out); err != nil || string(out) != string(payload) {
			t.Errorf("%s with %s: %s, %v", one.Name, payload, out, err)
		}
	}
}

// example makes a value that fits a schema of the plain kind that tools have.
func example(t *testing.T, schema jsontext.Value) jsontext.Value {
	t.Helper()
	var s struct {
		Type       string                    `json:"type"`
		Enum       []jsontext.Value          `json:"enum"`
		Required   []string                  `json:"required"`
		Properties map[string]jsontext.Value `json:"properties"`
		Items      jsontext.Value            `json:"items"`
		MinItems   int                       `json:"minItems"`
		Minimum    *float64                  `json:"minimum"`
	}
	must(t, json.Unmarshal(schema, &s))
	var out any
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "object":
		members := make(map[string]jsontext.Value)
		for _, name := range s.Required {
			members[name] = example(t, s.Properties[name])
		}
		out = members
	case s.Type == "array":
		items := []jsontext.Value{}
		for range s.MinItems {
			items = append(items, example(t, s.Items))
		}
		out = items
	case s.Type == "number", s.Type == "integer":
		if out = 1; s.Minimum != nil {
			out = *s.Minimum
		}
	case s.Type == "boolean":
		out = true
	default:
		out = "text"
	}
	b, err := json.Marshal(out, json.Deterministic(true))
	must(t, err)
	return b
}
