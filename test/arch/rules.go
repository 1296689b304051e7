package arch

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/agent-reach/agent-reach"

// A rule says which of our own packages a package may import. Both sides are patterns of matches.
type rule struct {
	pkg    string
	may    []string
	reason string
}

// own is the table of the architecture. The first rule whose pkg matches holds.
var own = []rule{
	{"envelope", nil, "what is said is the ground that everything stands on"},
	{"envelope/seen", []string{"envelope"}, "the memory of ids knows messages only"},
	{"envelope/link", []string{"envelope"}, "frames carry envelopes over any byte stream, for nodes and agents alike"},
	{"gossip", []string{"envelope"}, "who is where is decided without knowing how requests are routed"},
	{"reach", []string{"envelope", "envelope/seen"}, "the decision stands in the middle and meets the world through its own interfaces"},
	{"reach/schema", []string{"envelope", "envelope/link", "reach"}, "a part at the edge of reach"},
	{"reach/adapter/*", []string{"envelope", "envelope/link", "reach"}, "an adapter knows its protocol and reach, and no other adapter"},
	{"node/*", []string{"envelope", "envelope/link", "gossip", "reach", "reach/*"}, "the node's parts do not know each other: node joins them"},
	{"node", []string{"envelope", "envelope/*", "gossip", "reach", "reach/*", "node/*"}, "the only place where the parts meet"},
	{"sdk", []string{"envelope", "envelope/link"}, "a third party that imports the SDK pulls in nothing else"},
	// envelope beyond the table: the program reads keys, makes headers and matches error codes, which are envelope's.
	{"cmd/*", []string{"node", "sdk", "envelope"}, "the program is a thin shell over node and sdk"},
	{"test/*", []string{"*"}, "tests may look at everything"},
}

// A ban keeps imports away from packages.
type ban struct {
	imports []string // patterns
	in      []string // packages that it is for, patterns; nil: all
	but     []string // and those that may all the same, patterns
	reason  string
}

// bans are about imports from elsewhere: the standard library's and third parties'.
var bans = []ban{
	{[]string{"net", "net/*", "os", "os/*", "syscall", "log", "io/fs"}, []string{"reach"}, nil, "the decision opens no socket and reads no file"},
	{[]string{"net", "log", "os/*", "syscall", "context"}, []string{"envelope"}, nil, "envelopes are values: no network, no waiting"},
	{[]string{"net", "net/*", "os", "os/*", "syscall", "log"}, []string{"envelope/seen", "gossip"}, nil, "state without I/O"},
	{[]string{"net/http"}, []string{"envelope/link"}, nil, "a link runs over any byte stream"},
	{[]string{"gopkg.in/yaml.v3", "go.yaml.in/*"}, nil, []string{"node"}, "YAML is the administrator's; the library is unmaintained, and one package is one place to change it"},
	{[]string{"github.com/quic-go/*"}, nil, []string{"node/peer"}, "QUIC is between nodes only, and its API moves at every release"},
	{[]string{"github.com/hashicorp/memberlist"}, nil, []string{"gossip", "node/peer"}, "membership stands beside the core"},
	{[]string{"github.com/santhosh-tekuri/*"}, nil, []string{"reach/schema"}, "schemas are checked behind one package that bounds their cost"},
	{[]string{"github.com/bits-and-blooms/*"}, nil, []string{"envelope/seen"}, "the filter answers maybe: only seen knows what to make of that"},
	{[]string{"github.com/prometheus/*"}, nil, []string{"node/metrics"}, "metrics hang on reach.Observer and nowhere else"},
	{[]string{"github.com/coder/websocket"}, nil, []string{"envelope/link", "node/ingress", "sdk"}, "WebSocket is one way to get a byte stream: link makes it one, the two ends open it, the rest knows links"},
	{[]string{"github.com/spf13/*"}, nil, []string{"cmd/*"}, "flags are the program's"},
	{[]string{"github.com/fsnotify/*", "github.com/lmittmann/*"}, nil, []string{"node"}, "files and terminals are the wiring's"},
	{[]string{"encoding/json"}, nil, []string{"test/*", "reach/schema"},
		"go-json-experiment/json everywhere: it refuses duplicate names and bad UTF-8; only the schema library's numbers are json.Number"},
	{[]string{"math/rand"}, nil, nil, "math/rand/v2 has no global seed and better generators"},
	{[]string{"testing", "testing/*"}, nil, []string{"test/*"}, "no test code in the product"},
	{[]string{"expvar", "net/http/pprof"}, nil, nil, "they register themselves on a global mux"},
	{[]string{"unsafe", "plugin"}, nil, nil, "nothing here is worth it"},
}

// leaving lists modules that nothing reachable from the SDK may need, even through others.
var leaving = ban{
	[]string{"gopkg.in/yaml.v3", "github.com/spf13/*", "github.com/prometheus/*", "github.com/quic-go/*", "github.com/hashicorp/memberlist",
		"github.com/santhosh-tekuri/*", "github.com/fsnotify/*", module + "/node", module + "/node/*", module + "/reach", module + "/reach/*", module + "/gossip"},
	[]string{"sdk"}, nil, "a third party that imports the SDK pulls in nothing else",
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	TestGoFiles,
	XTestGoFiles []string
	Imports []string
	Deps    []string
}

// name is the package's path in the module: "reach/adapter/httpagent".
func (p *pkg) name() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// violations are p's imports against the rules.
func violations(p *pkg) (out []string) {
	at := slices.IndexFunc(own, func(r rule) bool { return matches(r.pkg, p.name()) })
	if at < 0 {
		return []string{fmt.Sprintf("%s: no rule in test/arch/rules.go says what it may import", p.name())}
	}
	for _, imported := range p.Imports {
		ours, ok := strings.CutPrefix(imported, module+"/")
		if ok && !matchesAny(own[at].may, ours) {
			out = append(out, fmt.Sprintf("%s imports %s: %s", p.name(), ours, own[at].reason))
		}
		for _, b := range bans {
			if b.against(p.name(), imported) {
				out = append(out, fmt.Sprintf("%s imports %s: %s", p.name(), imported, b.reason))
			}
		}
	}
	for _, needed := range p.Deps {
		if leaving.against(p.name(), needed) {
			out = append(out, fmt.Sprintf("%s needs %s: %s", p.name(), needed, leaving.reason))
		}
	}
	return out
}

func (b *ban) against(pkg, imported string) bool {
	return matchesAny(b.imports, imported) && (b.in == nil || matchesAny(b.in, pkg)) && !matchesAny(b.but, pkg)
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

// matches: "a/*" is everything below a, not a itself; "*" is everything; any other pattern is the path itself.
func matches(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
