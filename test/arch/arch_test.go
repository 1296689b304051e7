package arch

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

func TestEveryPackageHasADocFile(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go: what it is, its flow or state diagram, its errors", p.name())
		}
	}
}

func TestTheRulesBite(t *testing.T) {
	for _, tt := range []struct {
		pkg, imports string
		forbidden    bool
	}{
		{"envelope", module + "/envelope/link", true},
		{"envelope/seen", module + "/envelope", false},
		{"gossip", module + "/reach", true},
		{"reach", module + "/gossip", true},
		{"reach", module + "/envelope/seen", false},
		{"reach", module + "/envelope/link", true},
		{"reach", "net", true},
		{"reach", "net/netip", true},
		{"reach", "os", true},
		{"reach", "sync/atomic", false},
		{"reach/schema", module + "/reach/adapter/httpagent", true},
		{"reach/adapter/httpagent", module + "/reach", false},
		{"reach/adapter/httpagent", module + "/reach/adapter/linkagent", true},
		{"reach/adapter/httpagent", "net/http", false},
		{"node/ingress", module + "/node/registry", true},
		{"node/ingress", module + "/reach/schema", false},
		{"node/registry", module + "/node", true},
		{"node", module + "/node/registry", false},
		{"node", module + "/sdk", true},
		{"node", "gopkg.in/yaml.v3", false},
		{"node/registry", "gopkg.in/yaml.v3", true},
		{"node/ingress", "github.com/quic-go/quic-go", true},
		{"node/peer", "github.com/quic-go/quic-go", false},
		{"sdk", module + "/reach", true},
		{"cmd/agent-reach", module + "/sdk", false},
		{"cmd/agent-reach", module + "/reach", true},
		{"reach", "encoding/json", true},
		{"test/scenario", module + "/node", false},
		{"helpers", "fmt", true},
	} {
		got := violations(&pkg{ImportPath: module + "/" + tt.pkg, Imports: []string{tt.imports}})
		if (len(got) > 0) != tt.forbidden {
			t.Errorf("%s imports %s: %q", tt.pkg, tt.imports, got)
		}
	}
	if got := violations(&pkg{ImportPath: module + "/sdk", Deps: []string{"github.com/prometheus/client_golang/prometheus"}}); len(got) == 0 {
		t.Error("sdk may need prometheus through others")
	}
}

// packages are all packages of the module. Modules below it, such as the benchmark's, are none of it.
func packages(t *testing.T) (out []*pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps", "./...")
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		var p pkg
		switch err := json.UnmarshalDecode(decoder, &p); {
		case errors.Is(err, io.EOF):
			if len(out) < 5 || !strings.HasPrefix(out[0].ImportPath, module) {
				t.Fatalf("go list found %d packages: run from the repository", len(out))
			}
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, &p)
	}
}
