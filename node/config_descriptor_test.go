package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestReadDescriptorFromYAMLAndJSON(t *testing.T) {
	const asYAML = `
agent_id: weather-01
display_name: "Wetter & mehr"
capabilities:
  - name: weather.now
    version: "1.0.0"
    input_schema: {type: object, properties: {city: {type: string, maxLength: 0x40}, at: {minimum: -1.50}}, required: [city], additionalProperties: false}
    tags: [a, "12", null_is_text, yes]
endpoint: {type: http, url: "http://127.0.0.1:9/rpc"}
`
	const asJSON = "{\n\t\"agent_id\": \"weather-01\", \"display_name\": \"Wetter & mehr\", \"endpoint\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:9/rpc\"},\n" +
		`"capabilities": [{"name": "weather.now", "version": "1.0.0", "tags": ["a", "12", "null_is_text", "yes"],
		"input_schema": {"type":"object","properties":{"city":{"type":"string","maxLength":64},"at":{"minimum":-1.50}},"required":["city"],"additionalProperties":false}}]}`
	y, err := ReadDescriptor(write(t, "d.yaml", asYAML))
	if err != nil {
		t.Fatal(err)
	}
	j, err := ReadDescriptor(write(t, "d.json", asJSON))
	if err != nil {
		t.Fatal(err)
	}
	if string(y.Capabilities[0].InputSchema) != string(j.Capabilities[0].InputSchema) {
		t.Errorf("schemas differ:\n%s\n%s", y.Capabilities[0].InputSchema, j.Capabilities[0].InputSchema)
	}
	if y.AgentID != j.AgentID || y.DisplayName != j.DisplayName || y.Endpoint != j.Endpoint || strings.Join(y.Capabilities[0].Tags, "|") != strings.Join(j.Capabilities[0].Tags, "|") {
		t.Errorf("%+v\n%+v", y, j)
	}
}

func TestReadDescriptorRefuses(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		one := "*a" + string(rune('0'+i))
		bomb += "a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat(one+", ", 9) + one + "]\n"
	}
	for _, tt := range []struct{ name, text, want string }{
		{"an unknown member", "agent_id: a\nports: 1\ncapabilities: []\n", `d.yaml: descriptor: `},
		{"a key twice", "agent_id: a\nagent_id: b\n", `d.yaml:2: key "agent_id" is there twice`},
		{"no YAML", "agent_id: [\n", `d.yaml:`},
		{"a key that is a list", "? [a]\n: 1\n", `d.yaml:1: a key has to be a word`},
		{"an endless alias", "a: &a [*a]\n", `d.yaml:1: more than 100000 values, or nested deeper than 100`},
		{"a bomb of aliases", bomb, `more than 100000 values`},
		{"an infinite number", "agent_id: a\ncurrent_load: .inf\n", `d.yaml: descriptor: `},
		{"a bad id", "agent_id: 'a b'\ncapabilities: []\n", `d.yaml: agent_id has the character ' ' (U+0020)`},
		{"nothing", "", `d.yaml: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadDescriptor(write(t, "d.yaml", tt.text))
			if !errors.Is(err, envelope.Malformed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func FuzzDescriptor(f *testing.F) {
	for _, s := range []string{"agent_id: a\ncapabilities: []\n", "a: &a {<<: *a}", "!!binary x", "- 0o17\n- 1_000\n- .nan\n- 2024-01-01", "'\\ud800': \"\\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDescriptor("d.yaml", text)
		if err == nil && envelope.CheckAgentID("agent_id", d.AgentID) != nil {
			t.Errorf("accepted %+v", d)
		}
	})
}
