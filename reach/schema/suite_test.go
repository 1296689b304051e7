package schema_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach/schema"
)

type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []suiteTest
}

type suiteTest struct {
	Description string
	Data        json.RawMessage
	Valid       bool
}

// remote is the server whose documents some of the suite's schemas refer to.
const remote = "http://localhost:1234/"

// TestSuite runs the required tests of the public JSON Schema test suite for 2020-12. The groups whose schemas refer to
// other documents must be refused: references are never fetched.
func TestSuite(t *testing.T) {
	passed, refused := 0, 0
	for name, group := range suite(t) {
		s, err := schema.Compile(group.Schema)
		switch {
		case refersOut(group.Schema):
			if !errors.Is(err, envelope.Malformed) || !strings.Contains(err.Error(), "never fetched") {
				t.Errorf("%s: a reference to another document was not refused: %v", name, err)
			}
			refused += len(group.Tests)
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			passed += runGroup(t, name, s, group.Tests)
		}
	}
	if passed+refused != 1099 || refused != 44 {
		t.Errorf("%d tests passed and %d were refused; want 1055 and 44", passed, refused)
	}
}

// TestSuiteBundled runs the refused groups after all, with the documents they refer to put into the schema. Left out are
// those that are about where a document was fetched from.
func TestSuiteBundled(t *testing.T) {
	passed := 0
	for name, group := range suite(t) {
		if !refersOut(group.Schema) {
			continue
		}
		s, err := schema.Compile(bundle(t, group.Schema))
		if err != nil {
			t.Logf("left out: %s: %v", name, err)
			continue
		}
		passed += runGroup(t, name, s, group.Tests)
	}
	if passed < 34 {
		t.Errorf("only %d tests ran", passed)
	}
}

func suite(t *testing.T) map[string]suiteGroup {
	t.Helper()
	files, err := filepath.Glob("testdata/suite/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("the suite has %d files: %v", len(files), err)
	}
	groups := map[string]suiteGroup{}
	for _, file := range files {
		var all []suiteGroup
		readJSON(t, file, &all)
		for _, g := range all {
			groups[filepath.Base(file)+": "+g.Description] = g
		}
	}
	return groups
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(file, err)
	}
}

func runGroup(t *testing.T, name string, s *schema.Schema, tests []suiteTest) (passed int) {
	t.Helper()
	for _, test := range tests {
		err := s.Check(test.Data)
		switch {
		case (err == nil) != test.Valid:
			t.Errorf("%s: %s: %s: valid %v, got %v", name, test.Description, test.Data, test.Valid, err)
		case err != nil && (!errors.Is(err, envelope.SchemaError) || len(envelope.AsError(err).Places) == 0):
			t.Errorf("%s: %s: an error without a place: %v", name, test.Description, err)
		default:
			passed++
		}
	}
	return passed
}

// refersOut reports whether a schema is refused for want of a document of the server. TestSuite counts on how many do.
func refersOut(raw []byte) bool {
	_, err := schema.Compile(raw)
	return strings.Contains(string(raw), remote) && err != nil
}

// bundle adds the remote documents as $defs.
func bundle(t *testing.T, raw []byte) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	defs, _ := doc["$defs"].(map[string]any)
	if defs == nil {
		defs = map[string]any{}
		doc["$defs"] = defs
	}
	files, _ := filepath.Glob("testdata/remotes/*.json")
	deeper, _ := filepath.Glob("testdata/remotes/*/*.json")
	for _, file := range append(files, deeper...) {
		var other map[string]any
		readJSON(t, file, &other)
		other["$id"] = remote + "draft2020-12/" + filepath.ToSlash(strings.TrimPrefix(file, filepath.Clean("testdata/remotes")+"/"))
		defs[other["$id"].(string)] = other
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
