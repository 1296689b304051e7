package node

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestShippedConfigIsTheDefaults(t *testing.T) {
	got, err := LoadConfig("../config.yaml", Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.File = "../config.yaml"
	want.Node.BootstrapFile = "../bootstrap.json"
	want.Node.GossipPeers = []string{}
	want.Bootstrap = []Member{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("config.yaml differs from the defaults:\n got %+v\nwant %+v", got, want)
	}
}

func TestShippedConfigNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile("../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sections := reflect.TypeFor[Config]()
	for _, section := range keysOf(sections) {
		field, _ := fieldOf(reflect.New(sections).Elem(), section)
		for _, key := range keysOf(field.Type()) {
			if !strings.Contains(string(text), "  "+key+": ") && !strings.Contains(string(text), "  # "+key+": ") {
				t.Errorf("config.yaml does not show %s.%s", section, key)
			}
		}
	}
}

func TestLoadConfigTakesTheDefaultForWhatIsMissing(t *testing.T) {
	for name, text := range map[string]string{
		"empty file":    "",
		"comments only": "# nothing yet\n",
		"empty section": "node:\n  # role: router\nrouting:\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := LoadConfig(write(t, "config.yaml", text), Overrides{})
			if err != nil {
				t.Fatal(err)
			}
			want := Defaults()
			if c.Node.ListenAddr != want.Node.ListenAddr || c.Routing != want.Routing || c.Registry != want.Registry {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestLoadConfigWithoutAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := LoadConfig("", Overrides{Role: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	if c.File != "" || c.Node.Role != RegistryOnly || c.Routing != Defaults().Routing {
		t.Errorf("got %+v", c)
	}
	if _, err := LoadConfig("config.yaml", Overrides{}); !errors.Is(err, envelope.Malformed) {
		t.Errorf("a named file that is missing: %v", err)
	}
	if err := os.WriteFile("config.yaml", []byte("routing: {select_mode: best}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := LoadConfig("", Overrides{}); err != nil || c.Routing.SelectMode != "best" {
		t.Errorf("config.yaml in the working folder is not read: %+v, %v", c, err)
	}
}

// Every message must hold the place and what would be right.
func TestLoadConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a misspelt key", "node:\n  listen_adr: x\n", `config.yaml:2: node.listen_adr: no such key; did you mean listen_addr?`},
		{"a key in the wrong section", "select_mode: best\n", `:1: select_mode: no such key; it belongs under routing`},
		{"a strange key", "auth:\n  zebra: 1\n", `:2: auth.zebra: no such key; the keys here are public_key_store, require_signature`},
		{"a strange section", "routin:\n  a: 1\n", `:1: routin: no such key; did you mean routing?`},
		{"a control character in a key", "\"a\\e[31m\": 1\n", `:1: a\x1b[31m: no such key`},
		{"a key twice", "node:\n  role: router\n  role: registry\n", `:3: node.role is set on line 2 already`},
		{"a section twice", "node: {}\nnode: {}\n", `:2: node is set on line 1 already`},
		{"text for a number", "routing:\n  max_hops: many\n", `:2: routing.max_hops is "many"; it has to be a whole number, such as 4`},
		{"a fraction for a whole number", "routing:\n  max_hops: 2.5\n", `max_hops is 2.5; it has to be a whole number`},
		{"a number beyond int", "routing:\n  max_hops: 99999999999999999999\n", `it has to be a whole number`},
		{"a number for text", "logging:\n  level: 5\n", `:2: logging.level is 5; it has to be text in quotes, such as "info"`},
		{"text for a truth value", "auth:\n  require_signature: \"yes\"\n", `is "yes"; it has to be true or false, such as true`},
		{"an old truth value", "auth:\n  require_signature: yes\n", `has to be true or false`},
		{"nothing", "routing:\n  max_hops:\n", `:2: routing.max_hops is empty; it has to be a whole number, such as 4`},
		{"a list for a section", "node: [1]\n", `:1: node has to be a section with the keys role, listen_addr`},
		{"text for a list", "node:\n  gossip_peers: a:1\n", `:2: node.gossip_peers has to be a list: [a, b]`},
		{"a list for a file", "- 1\n", `:1: the file has to be a section with the keys node, registry, routing, auth, logging`},
		{"no YAML", "node:\n  role: [\n", `config.yaml:`},
		{"bad indentation", "node:\n  role: router\n listen_addr: x\n", `: not YAML: did not find expected key; look at the indentation`},
		{"two documents", "node: {}\n---\nnode: {}\n", `a second YAML document begins here`},
		{"three weights", "routing:\n  score_weights: [1, 2, 3]\n", `:2: routing.score_weights has 3 values; it needs 4, such as [4, 3, 2, 1]`},
		{"a negative weight", "routing:\n  score_weights: [1, 2, 3, -1]\n", `:2: routing.score_weights[3]: -1 is no weight`},
		{"an infinite weight", "routing:\n  score_weights: [1, 2, 3, .inf]\n", `score_weights[3]: +Inf is no weight`},
		{"a weight that is no number", "routing:\n  score_weights: [.nan, 2, 3, 1]\n", `score_weights[0]: NaN is no weight`},
		{"no weight", "routing:\n  score_weights: [0, 0, 0, 0]\n", `:2: routing.score_weights: no weight is over 0`},
		{"a misspelt mode", "routing:\n  select_mode: weighted_randm\n", `:2: routing.select_mode: "weighted_randm" is none of best, weighted_random, round_robin, hash; did you mean weighted_random?`},
		{"a misspelt role", "node:\n  role: routr\n", `:2: node.role: "routr" is none of registry, router, router_and_registry; did you mean router?`},
		{"a level that is none", "logging:\n  level: trace\n", `"trace" is none of debug, info, warn, error`},
		{"a lease under the time-out", "registry:\n  heartbeat_timeout_sec: 200\n", `:2: registry.heartbeat_timeout_sec: capability_ttl_sec (180) is under heartbeat_timeout_sec (200)`},
		{"a rare pruning", "registry:\n  prune_interval_sec: 181\n", `:2: registry.prune_interval_sec: prune_interval_sec (181) is over capability_ttl_sec (180)`},
		{"no time at all", "registry:\n  heartbeat_timeout_sec: 0\n", `heartbeat_timeout_sec: 0 is out of range; it has to be 1 to 86400`},
		{"more links than connections", "node:\n  max_connections: 10\n", `:2: node.max_connections: max_links (12288) is over max_connections (10)`},
		{"an address without a port", "node:\n  listen_addr: localhost\n", `:2: node.listen_addr: "localhost" is no address; write "host:port"`},
		{"an impossible port", "node:\n  listen_addr: \"localhost:70000\"\n", `port "70000" is no number from 1 to 65535`},
		{"a host that is none", "node:\n  listen_addr: \"a b:1\"\n", `host "a b" is no IP address and no name`},
		{"a peer without a host", "node:\n  gossip_peers: [\"10.0.0.1:7981\", \":7981\"]\n", `:2: node.gossip_peers[1]: ":7981": host "" is no IP address`},
		{"a peer without a port", "node:\n  gossip_peers: [\"h:0\"]\n", `node.gossip_peers[0]: "h:0": port "0"`},
		{"a payload limit in MiB", "node:\n  max_payload_bytes: 4\n", `4 is out of range; it has to be 1024 to 268435456`},
		{"a bootstrap file that is not there", "node:\n  bootstrap_file: \"nowhere.json\"\n", `node.bootstrap_file cannot be read`},
		{"an empty key store", "auth:\n  public_key_store: \"\"\n", `:2: auth.public_key_store: names no file`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := LoadConfig(write(t, "config.yaml", tt.text), Overrides{})
			if !errors.Is(err, envelope.Malformed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestLoadConfigTellsEveryMistakeInOrder(t *testing.T) {
	file := write(t, "config.yaml", "routing:\n  max_hops: 0\n  select_mod: best\nnode:\n  role: boss\n")
	_, err := LoadConfig(file, Overrides{})
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], "the configuration has 3 mistakes") ||
		!strings.Contains(lines[1], ":2: ") || !strings.Contains(lines[2], ":3: ") || !strings.Contains(lines[3], ":5: ") {
		t.Errorf("got %v", err)
	}
}

func TestRoleFlag(t *testing.T) {
	file := write(t, "config.yaml", "node:\n  role: router\n")
	if c, err := LoadConfig(file, Overrides{Role: "registry"}); err != nil || c.Node.Role != RegistryOnly {
		t.Errorf("the flag does not win: %v, %v", c.Node.Role, err)
	}
	_, err := LoadConfig(file, Overrides{Role: "regstry"})
	if err == nil || !strings.Contains(err.Error(), `--role is "regstry"; it has to be one of registry, router, router_and_registry; did you mean registry?`) {
		t.Errorf("got %v", err)
	}
}

func TestRoles(t *testing.T) {
	for role, want := range map[Role][2]bool{RegistryOnly: {true, false}, RouterOnly: {false, true}, RouterAndRegistry: {true, true}} {
		if got := [2]bool{role.TakesAgents(), role.CarriesCalls()}; got != want {
			t.Errorf("%s: takes agents, carries calls = %v, want %v", role, got, want)
		}
	}
}

func TestBootstrapIsMergedWithPeers(t *testing.T) {
	key := envelope.GenerateKey().Public()
	file := write(t, "config.yaml", `node: {gossip_peers: ["10.0.0.2:7981", "10.0.0.1:7981", "10.0.0.2:7981"]}`)
	write(t, filepath.Join(filepath.Dir(file), "bootstrap.json"),
		`{"members": [{"id": "`+key.Fingerprint()+`", "address": "10.0.0.1:7981", "public_key": "`+key.String()+`"}]}`)
	c, err := LoadConfig(file, Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Member{{key.Fingerprint(), "10.0.0.1:7981", key}, {Address: "10.0.0.2:7981"}}
	if got := c.Members(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestBootstrapRefuses(t *testing.T) {
	key := envelope.GenerateKey().Public()
	member := `{"id": "` + key.Fingerprint() + `", "address": "10.0.0.1:7981", "public_key": "` + key.String() + `"}`
	other := strings.Replace(member, "10.0.0.1", "10.0.0.2", 1)
	for _, tt := range []struct{ name, text, want string }{
		{"an unknown member", "{\n\"nodes\": []}", `b.json:2: `},
		{"no JSON", "{\n\n\"members\": [}", `b.json:3: not JSON: `},
		{"a name twice", `{"members": [], "members": []}`, `duplicate`},
		{"an id twice", `{"members": [` + member + "," + other + `]}`, `members[1]: id "` + key.Fingerprint() + `" is that of members[0] already`},
		{"an address twice", `{"members": [` + member + "," + member + `]}`, `members[1]: address "10.0.0.1:7981" is that of members[0]`},
		{"an id of another key", `{"members": [` + strings.Replace(member, key.Fingerprint(), "node-1", 1) + `]}`, `members[0]: id is "node-1", but this public_key belongs to node ` + key.Fingerprint()},
		{"no key", `{"members": [{"id": "a", "address": "h:1"}]}`, `members[0]: has no public_key`},
		{"a bad key", "{\"members\": [\n{\"public_key\": \"AA==\"}]}", `b.json:2: /members/0/public_key: public key is not base64 of 32 bytes`},
		{"no address", `{"members": [` + strings.Replace(member, "10.0.0.1:7981", "", 1) + `]}`, `members[0]: address "" is no address`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, mistakes := parseBootstrap("b.json", []byte(tt.text))
			if err := mistakesError("the file", mistakes); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func FuzzConfig(f *testing.F) {
	shipped, err := os.ReadFile("../config.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shipped)
	for _, s := range []string{"node: &a {role: *a}", "a: &a [*a]", "? [x]\n: 1", "node: !!binary AAAA", "<<: {node: {}}", "routing: {score_weights: [1e999, 0x10, 1_0, .1]}", "%YAML 1.1\n---\nnode: {}", "\xff", "node: {listen_addr: \"[::1]:1\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, d := parseConfig("config.yaml", text, Overrides{})
		if len(d.mistakes) > 0 {
			return
		}
		if r := c.Registry; r.CapabilityTTLSec < r.HeartbeatTimeoutSec || r.HeartbeatTimeoutSec < 1 {
			t.Errorf("accepted %+v", r)
		}
		if c.Node.Role.TakesAgents() == false && c.Node.Role != RouterOnly || c.Node.MaxLinks > c.Node.MaxConnections {
			t.Errorf("accepted %+v", c.Node)
		}
		for _, w := range c.Routing.ScoreWeights {
			if !(w >= 0) {
				t.Errorf("accepted %v", c.Routing.ScoreWeights)
			}
		}
	})
}

func FuzzBootstrap(f *testing.F) {
	f.Add([]byte(`{"members": [{"id": "a", "address": "h:1", "public_key": "AA=="}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		members, mistakes := parseBootstrap("b.json", text)
		for i, m := range members {
			if len(mistakes) == 0 && m.ID != m.PublicKey.Fingerprint() {
				t.Errorf("accepted member %d: %+v", i, m)
			}
		}
	})
}

// write makes a file; a name without a folder goes into a new one.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
