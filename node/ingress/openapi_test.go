package ingress

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/agent-reach/agent-reach/envelope"
)

// api is openapi.yaml as far as it is held to the code.
type api struct {
	OpenAPI    string                          `yaml:"openapi"`
	Paths      map[string]map[string]yaml.Node `yaml:"paths"`
	Components map[string]map[string]yaml.Node `yaml:"components"`
}

type schemaNode struct {
	Properties map[string]yaml.Node `yaml:"properties"`
	Required   []string             `yaml:"required"`
	Enum       []string             `yaml:"enum"`
	Statuses   map[string]int       `yaml:"x-statuses"`
}

func loadAPI(t *testing.T) (a api) {
	if err := yaml.Unmarshal(openAPI, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *api) schema(t *testing.T, name string) (s schemaNode) {
	t.Helper()
	node, ok := a.Components["schemas"][name]
	if !ok {
		t.Fatalf("openapi.yaml has no schema %s", name)
	}
	if err := node.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func equal(t *testing.T, what string, described, real []string) {
	t.Helper()
	slices.Sort(described)
	slices.Sort(real)
	if !slices.Equal(described, real) {
		t.Errorf("%s:\n openapi.yaml %v\n the code     %v", what, described, real)
	}
}

func TestAPIHasTheRoutes(t *testing.T) {
	var described, real, ids []string
	for path, operations := range loadAPI(t).Paths {
		for method, node := range operations {
			if method == "parameters" {
				continue
			}
			described = append(described, strings.ToUpper(method)+" "+path)
			var operation struct {
				ID        string `yaml:"operationId"`
				Summary   string
				Responses map[string]yaml.Node
			}
			if err := node.Decode(&operation); err != nil {
				t.Fatal(err)
			}
			if operation.Summary == "" || len(operation.Responses) == 0 {
				t.Errorf("%s %s is not described", method, path)
			}
			ids = append(ids, operation.ID)
		}
	}
	for _, rt := range table() {
		real = append(real, rt.method+" "+rt.pattern)
	}
	equal(t, "routes", described, real)
	if slices.Sort(ids); len(slices.Compact(slices.Clone(ids))) != len(ids) || ids[0] == "" {
		t.Errorf("operation ids %v", ids)
	}
}

// Every reference leads somewhere, and every component is referred to.
func TestAPIReferences(t *testing.T) {
	var root yaml.Node
	if err := yaml.Unmarshal(openAPI, &root); err != nil {
		t.Fatal(err)
	}
	referred := make(map[string]bool)
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == "$ref" {
				referred[n.Content[i+1].Value] = true
			}
			walk(c)
		}
	}
	walk(&root)
	payloads := []string{"BroadcastReply", "CancelReply"} // stand inside of answers, to which no schema leads
	for _, name := range payloads {
		referred["#/components/schemas/"+name] = true
	}
	var real []string
	for kind, components := range loadAPI(t).Components {
		for name := range components {
			real = append(real, "#/components/"+kind+"/"+name)
		}
	}
	equal(t, "components", slices.Collect(maps.Keys(referred)), real)
}

func TestAPIHasTheFields(t *testing.T) {
	a := loadAPI(t)
	for name, v := range map[string]any{
		"Agent": agentView{}, "Departed": departedView{}, "Load": loadView{}, "Capability": capabilityView{}, "AgentList": agentList{},
		"CapabilityList": capabilityList{}, "Offered": offered{}, "NodeList": nodeList{}, "Node": nodeView{},
		"LookupReply": lookupReply{}, "DirectCandidate": directCandidate{}, "Endpoint": endpointView{}, "Factors": factorsView{},
		"ExplainReply": explainReply{}, "Explained": explained{}, "LeftOut": leftOut{},
		"BroadcastReply": broadcastReply{}, "Outcome": outcome{}, "CancelReply": cancelled{}, "Operating": operating{},
		"Problem": problem{}, "Place": envelope.Place{}, "Header": envelope.Header{}, "Document": envelope.Document{},
	} {
		s := a.schema(t, name)
		all, required := fields(reflect.TypeOf(v))
		equal(t, name, slices.Collect(maps.Keys(s.Properties)), all)
		equal(t, name+", required", s.Required, required)
	}
}

// fields are the names of a struct's JSON members, and of those that are always there.
func fields(typ reflect.Type) (all, required []string) {
	for i := range typ.NumField() {
		tag := strings.Split(typ.Field(i).Tag.Get("json"), ",")
		if tag[0] == "" || tag[0] == "-" {
			continue
		}
		all = append(all, tag[0])
		if !slices.Contains(tag, "omitzero") && !slices.Contains(tag, "omitempty") {
			required = append(required, tag[0])
		}
	}
	return all, required
}

func TestAPIHasTheErrors(t *testing.T) {
	a := loadAPI(t)
	codes := constants(t, "Code")
	equal(t, "codes", a.schema(t, "Code").Enum, codes)
	statuses := a.schema(t, "Code").Statuses
	equal(t, "codes with a status", slices.Collect(maps.Keys(statuses)), codes)
	for code, status := range statuses {
		if real := envelope.Code(code).HTTPStatus(); real != status {
			t.Errorf("%s: openapi.yaml says %d, the code %d", code, status, real)
		}
	}
	equal(t, "steps", a.schema(t, "Step").Enum, constants(t, "Step"))
	var members []string
	for name := range a.schema(t, "Error").Properties {
		members = append(members, name)
	}
	e := envelope.Errorf(envelope.Internal, envelope.StepCall, "x").WithHint("x").WithTrace("x").WithRetryAfter(1e9)
	e.Places = []envelope.Place{{}}
	var real map[string]any
	unmarshal(t, envelope.MarshalError(e), &real)
	equal(t, "error object", members, slices.Collect(maps.Keys(real)))
}

// constants are the values of envelope's constants of a type, read from its source.
func constants(t *testing.T, typ string) (values []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../envelope/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || fmt.Sprint(spec.Type) != typ {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			v, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		return true
	})
	if len(values) < 10 {
		t.Fatalf("%d constants of type %s found", len(values), typ)
	}
	return values
}
