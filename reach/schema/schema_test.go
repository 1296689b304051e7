package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach/schema"
)

func TestID(t *testing.T) {
	a, b := schema.ID([]byte(`{}`)), schema.ID([]byte(`{ }`))
	if a == b || a == (envelope.SchemaID{}) || a != schema.ID([]byte(`{}`)) {
		t.Errorf("%x %x", a, b)
	}
}

// TestStoreCounts: equal bytes are one schema, which stays until the last user is gone.
func TestStoreCounts(t *testing.T) {
	s := schema.NewStore()
	raw := []byte(`{"type":"object","properties":{"qty":{"type":"integer"}}}`)
	first, err1 := s.Add(raw)
	second, err2 := s.Add(raw)
	if err1 != nil || err2 != nil || first != second || first != schema.ID(raw) {
		t.Fatal(first, second, err1, err2)
	}
	for users := 2; users > 0; users-- {
		if err := s.Check(first, []byte(`{"qty":1}`)); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(first, []byte(`{"qty":"x"}`)); !errors.Is(err, envelope.SchemaError) {
			t.Fatal(err)
		}
		s.Drop(first)
	}
	if err := s.Check(first, []byte(`{"qty":1}`)); !errors.Is(err, envelope.Internal) {
		t.Fatal(err)
	}
	s.Drop(first) // ignored
}

func TestStoreZero(t *testing.T) {
	s := schema.NewStore()
	id, err := s.Add([]byte("null"))
	if err != nil || id != (envelope.SchemaID{}) || s.Check(id, []byte("no JSON")) != nil {
		t.Fatal(id, err)
	}
	s.Drop(id)
}

// TestStoreBad: a bad schema leaves nothing behind and does not disturb others.
func TestStoreBad(t *testing.T) {
	s := schema.NewStore()
	good, err := s.Add([]byte(`{"const":1}`))
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(`{"type":"strng"}`)
	if _, err := s.Add(raw); !errors.Is(err, envelope.Malformed) {
		t.Fatal(err)
	}
	if err := s.Check(schema.ID(raw), []byte("1")); !errors.Is(err, envelope.Internal) {
		t.Error(err)
	}
	if s.Check(good, []byte("1")) != nil || s.Check(good, []byte("2")) == nil {
		t.Error("the good schema was disturbed")
	}
}

// TestStoreConcurrent: adding, checking and dropping at once. A schema that one user holds is never missing.
func TestStoreConcurrent(t *testing.T) {
	s := schema.NewStore()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 50 {
				raw := fmt.Appendf(nil, `{"const":%d}`, i%3)
				id, err := s.Add(raw)
				if err != nil {
					t.Error(worker, err)
					return
				}
				fits := s.Check(id, fmt.Appendf(nil, "%d", i%3))
				not := s.Check(id, []byte("7"))
				if fits != nil || !errors.Is(not, envelope.SchemaError) {
					t.Error(worker, fits, not)
				}
				s.Drop(id)
			}
		})
	}
	all.Wait()
	for i := range 3 {
		if err := s.Check(schema.ID(fmt.Appendf(nil, `{"const":%d}`, i)), nil); !errors.Is(err, envelope.Internal) {
			t.Error(i, err)
		}
	}
}

// TestStoreLarge: more large payloads at once than there are places for are all checked.
func TestStoreLarge(t *testing.T) {
	s := schema.NewStore()
	id, err := s.Add([]byte(`{"items":{"type":"integer"}}`))
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte("[" + strings.Repeat("1,", 40_000) + "1]")
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if err := s.Check(id, payload); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestSchemaConcurrent: one schema, checked by many at once.
func TestSchemaConcurrent(t *testing.T) {
	s := compile(t, orderSchema)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if err := s.Check([]byte(orderPayload)); err != nil {
					t.Error(err)
				}
				err := s.Check([]byte(strings.Replace(orderPayload, "12,", `"x",`, 1)))
				if places(err) != "/qty: got string, want integer" {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestTools compiles the schemas of a public MCP server's tools, if they are at hand.
func TestTools(t *testing.T) {
	dir := os.Getenv("SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	b, err := os.ReadFile(filepath.Join(dir, "data", "tools-github.json"))
	if err != nil {
		t.Skip("not run: tools-github.json is not here; set SHARED to the folder that holds data/tools-github.json")
	}
	var tools []struct {
		Name         string
		InputSchema  json.RawMessage `json:"input_schema"`
		OutputSchema json.RawMessage `json:"output_schema"`
	}
	if err := json.Unmarshal(b, &tools); err != nil || len(tools) != 117 {
		t.Fatal(len(tools), err)
	}
	for _, tool := range tools {
		if _, err := schema.Compile(tool.InputSchema); err != nil {
			t.Errorf("%s: %v", tool.Name, err)
		}
		if _, err := schema.Compile(tool.OutputSchema); err != nil {
			t.Errorf("%s: %v", tool.Name, err)
		}
		if !strings.Contains(string(tool.InputSchema), `"required"`) {
			continue
		}
		err := compile(t, string(tool.InputSchema)).Check([]byte("{}"))
		if !strings.Contains(places(err), ": lacks ") {
			t.Errorf("%s: {} got %v", tool.Name, err)
		}
	}
}

// TestFormats: the usual formats are asserted, others are not.
func TestFormats(t *testing.T) {
	for format, c := range map[string]struct{ good, bad string }{
		"date":                  {"2024-02-29", "2023-02-29"},
		"date-time":             {"2026-11-30T12:00:00.5+01:00", "2026-11-30 12:00:00"},
		"time":                  {"23:59:60Z", "24:00:00Z"},
		"duration":              {"P1Y2M3DT4H5M6S", "P1S"},
		"email":                 {"a.b+c@example.org", "a@b@"},
		"hostname":              {"a-b.example", "-a.example"},
		"ipv4":                  {"192.0.2.255", "192.0.2.256"},
		"ipv6":                  {"::ffff:192.0.2.1", "1:2:3"},
		"uri":                   {"https://a.example/b?c#d", "/b"},
		"uri-reference":         {"../b", `\\a`},
		"uri-template":          {"https://a.example/{b}", "https://a.example/{b"},
		"iri":                   {"https://a.example/ä", "//ä"},
		"uuid":                  {"0190163d-8694-739b-aea5-966c26f8ad90", "0190163d8694739baea5966c26f8ad90"},
		"json-pointer":          {"/a~1b", "a"},
		"relative-json-pointer": {"1/a", "/a"},
		"regex":                 {"^(a|b)+$", "^(a|b+$"},
		"semver":                {"1.2.3-rc.1", "1.2"},
		"period":                {"2026-11-30T12:00:00Z/P1D", "P1D"},
	} {
		s := compile(t, fmt.Sprintf(`{"format":%q}`, format))
		if err := s.Check(fmt.Appendf(nil, "%q", c.good)); err != nil {
			t.Errorf("%s: %s: %v", format, c.good, err)
		}
		if err := s.Check(fmt.Appendf(nil, "%q", c.bad)); !strings.HasPrefix(places(err), ": is no "+format+" (like ") {
			t.Errorf("%s: %s: %v", format, c.bad, err)
		}
		if err := s.Check([]byte("3")); err != nil {
			t.Errorf("%s is for strings only: %v", format, err)
		}
	}
	if err := compile(t, `{"format":"phone"}`).Check([]byte(`"x"`)); err != nil {
		t.Error(err)
	}
}

// TestConst is what others get wrong: const counts, and so do lists of types.
func TestConst(t *testing.T) {
	s := compile(t, `{"properties":{"kind":{"const":"order"},"n":{"const":1.0},"o":{"const":{"a":[1],"b":null}},"t":{"type":["string","null"]}}}`)
	for payload, fits := range map[string]bool{
		`{"kind":"order","n":1,"o":{"b":null,"a":[1.0]},"t":null}`: true,
		`{"kind":"orders"}`:           false,
		`{"n":10e-1}`:                 true,
		`{"n":"1"}`:                   false,
		`{"n":true}`:                  false,
		`{"o":{"a":[1]}}`:             false,
		`{"o":{"a":[1],"b":0}}`:       false,
		`{"o":{"a":[1,1],"b":null}}`:  false,
		`{"t":"x"}`:                   true,
		`{"t":1}`:                     false,
		`{"\u006bind":"\u006frder"}`:  true,
		`{"\u006bind":"\u006frders"}`: false,
	} {
		if err := s.Check([]byte(payload)); (err == nil) != fits {
			t.Errorf("%s: got %v", payload, err)
		}
	}
}

// TestFrames: a payload that nests the schema too deep for the stack gets an error.
func TestFrames(t *testing.T) {
	s := compile(t, doubling(200, `{"allOf":[NEXT]}`, `{"items":{"$ref":"#"}}`))
	payload := []byte(strings.Repeat("[", 400) + strings.Repeat("]", 400))
	if err := s.Check(payload); !errors.Is(err, envelope.TooLarge) || !strings.Contains(err.Error(), "within one another") {
		t.Error(err)
	}
	if err := compile(t, `{"items":{"$ref":"#"}}`).Check(payload); err != nil {
		t.Error(err)
	}
}
