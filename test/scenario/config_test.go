package scenario

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// TestKeystoreEnrolment: only whom the administrator has put into the key store may register; a key that is added counts without a restart, and the
// node writes nothing into the file.
func TestKeystoreEnrolment(t *testing.T) {
	n := newNode(t, settings{"auth.enrollment": "keystore"})
	known, late := envelope.GenerateKey(), envelope.GenerateKey()
	store := func(keys map[string]envelope.PrivateKey) string {
		var lines []string
		for id, key := range keys {
			lines = append(lines, fmt.Sprintf("%q: %q", id, key.Public()))
		}
		text := `{"agents": {` + strings.Join(lines, ", ") + `}}`
		must(t, envelope.WriteFile(n.file("keys/public_keys.json"), []byte(text)))
		return text
	}
	store(map[string]envelope.PrivateKey{"known": known})
	n.start(t)
	serveEcho(t, n, "known", "echo.say", sdk.WithKey(known))
	stranger := newAgent(t, n, "late", sdk.WithKey(late))
	refusedAs(t, "an agent that nobody enrolled", stranger.Run(short(t)), envelope.UnknownAgent)
	refusedAs(t, "a known id with another key", newAgent(t, n, "known").Run(short(t)), envelope.Conflict)
	v := newVoice(t, n, "over-http")
	problemHelps(t, "over HTTP", v.register(), envelope.UnknownAgent)
	if havePython() {
		p := runPython(t, n, nil, "python/agent.py", "py", "py.echo=echo")
		p.says(t, "unknown_agent")
		if p.exit(t) == 0 {
			t.Error("a Python agent that nobody enrolled exits with 0")
		}
	}
	text := store(map[string]envelope.PrivateKey{"known": known, "late": late})
	var caller *sdk.Agent
	eventually(t, "the added key counts", func() bool {
		caller = newAgent(t, n, "late", sdk.WithKey(late))
		return caller.Call(short(t), "echo.say", 1, nil) == nil
	})
	now, err := os.ReadFile(n.file("keys/public_keys.json"))
	if must(t, err); string(now) != text {
		t.Errorf("the node wrote into the key store: %s", now)
	}
	must(t, os.WriteFile(n.file("keys/public_keys.json"), []byte(`{"agents": {"late": "bm90IGEga2V5"}}`), 0o600))
	n.says(t, "the file is refused")
	must(t, caller.Call(short(t), "echo.say", 1, nil))
}

// TestImpossibleConfig: each mistake ends the program with 1, and says file, line and key, and what would be right.
func TestImpossibleConfig(t *testing.T) {
	for text, want := range map[string]string{
		"node:\n  listen_adr: \"127.0.0.1:1\"\n":                                         "config.yaml:2: node.listen_adr",
		"node:\n  role: boss\n":                                                          "config.yaml:2: node.role",
		"node:\n  listen_addr: nowhere\n":                                                "config.yaml:2: node.listen_addr",
		"routing:\n  select_mode: best\n  select_top_n: many\n":                          "config.yaml:3: routing.select_top_n",
		"routing:\n  score_weights: [1, 2]\n":                                            "config.yaml:2: routing.score_weights",
		"routing:\n  score_weights: [0, 0, 0, 0]\n":                                      "config.yaml:2: routing.score_weights",
		"routing:\n  max_retry_count: -1\n":                                              "config.yaml:2: routing.max_retry_count",
		"registry:\n  heartbeat_timeout_sec: 100\n  capability_ttl_sec: 50\n":            "config.yaml:3: registry.capability_ttl_sec",
		"registry:\n  heartbeat_timeout_sec: 1.5\n":                                      "config.yaml:2: registry.heartbeat_timeout_sec",
		"auth:\n  enrollment: everybody\n":                                               "config.yaml:2: auth.enrollment",
		"auth:\n  require_signature: perhaps\n":                                          "config.yaml:2: auth.require_signature",
		"auth:\n  permissions_file: nowhere.yaml\n":                                      "nowhere.yaml",
		"logging:\n  level: loud\n":                                                      "config.yaml:2: logging.level",
		"logging:\n  level: info\n  level: debug\n":                                      "config.yaml:3",
		"what:\n  ever: 1\n":                                                             "config.yaml:1: what",
		"node: [1]\n":                                                                    "config.yaml:1: node",
		"node:\n\tlisten_addr: \"127.0.0.1:1\"\n":                                        "config.yaml:2",
		"node:\n  listen_addr: \"127.0.0.1:1\"\n  private_key_path: /proc/nowhere/key\n": "/proc/nowhere",
	} {
		n := newNode(t, nil)
		must(t, os.WriteFile(n.file("config.yaml"), []byte(text), 0o600))
		_, stderr, exit := n.cli(t, "--config", "config.yaml")
		if exit != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, "error: ") {
			t.Errorf("%q: exit %d, no %q in %s", text, exit, want, stderr)
		}
	}
}

// TestPortTaken: a second node on one port says what to do.
func TestPortTaken(t *testing.T) {
	n := startNode(t, nil)
	second := newNode(t, settings{"node.listen_addr": n.addr})
	_, stderr, exit := second.cli(t, "--config", "config.yaml")
	if exit == 0 || !strings.Contains(stderr, n.addr) || !strings.Contains(stderr, "hint: ") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
	if !n.ready() {
		t.Error("the first node is gone")
	}
}

// TestRoles: a registry carries no calls, and no agents attach to a router; each says where to go instead.
func TestRoles(t *testing.T) {
	registry, router := startNode(t, settings{"node.role": "registry"}), startNode(t, settings{"node.role": "router"})
	serveEcho(t, registry, "echo", "echo.say")
	problemHelps(t, "a call at a registry", registered(t, registry, "voice").ask("echo.say", `{}`), envelope.Unsupported)
	problemHelps(t, "an agent at a router", newVoice(t, router, "voice").register(), envelope.Unsupported)
}

// TestShippedConfig: the repository's own config.yaml and bootstrap.json start a node as they are, but for the port.
func TestShippedConfig(t *testing.T) {
	n := newNode(t, nil)
	text, err := os.ReadFile("../../config.yaml")
	must(t, err)
	bootstrap, err := os.ReadFile("../../bootstrap.json")
	must(t, err)
	ours := strings.Replace(string(text), "0.0.0.0:7981", n.addr, 1)
	must(t, os.WriteFile(n.file("config.yaml"), []byte(ours), 0o600))
	must(t, os.WriteFile(n.file("bootstrap.json"), bootstrap, 0o600))
	if stdout, stderr, exit := n.cli(t, "config", "check", "config.yaml"); exit != 0 {
		t.Errorf("config check exited with %d: %s%s", exit, stdout, stderr)
	}
	n.start(t)
	n.says(t, "gossip sync complete")
	serveEcho(t, n, "echo", "echo.say")
	if v := n.callView(t, "echo.say", strconv.Itoa(7)); string(v.Payload) != "7" {
		t.Errorf("%+v", v)
	}
}
