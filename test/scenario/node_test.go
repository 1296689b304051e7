package scenario

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

// settings are keys of config.yaml, as "routing.queue_per_agent": "1".
type settings map[string]string

// node is a running agent-reach. Started again, it has the same port, folder and so the same key.
type node struct {
	*process
	dir, addr, url string
}

// startNode starts a node and returns when it is ready.
func startNode(t testing.TB, more settings) *node {
	t.Helper()
	n := newNode(t, more)
	n.start(t)
	return n
}

// newNode makes the folder of a node that is not started yet.
func newNode(t testing.TB, more settings) *node {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	n := &node{dir: t.TempDir(), addr: "127.0.0.1:" + port, url: "http://127.0.0.1:" + port}
	all := settings{"node.listen_addr": n.addr, "node.drain_timeout_sec": "5", "logging.format": "json"}
	for key, value := range more {
		all[key] = value
	}
	must(t, os.WriteFile(n.file("config.yaml"), []byte(all.yaml()), 0o600))
	return n
}

func (s settings) yaml() string {
	sections := make(map[string][]string)
	for path, value := range s {
		section, key, _ := strings.Cut(path, ".")
		sections[section] = append(sections[section], fmt.Sprintf("  %s: %s\n", key, value))
	}
	var b strings.Builder
	for section, lines := range sections {
		slices.Sort(lines)
		b.WriteString(section + ":\n" + strings.Join(lines, ""))
	}
	return b.String()
}

// freePort is a port below those that the system gives to outgoing connections, so that a node can have it again after its death.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// start starts the node, again after it was killed.
func (n *node) start(t testing.TB) {
	t.Helper()
	n.launch(t)
	eventually(t, "the node is ready", func() bool { return n.ready() || isClosed(n.ended) })
	if !n.ready() {
		t.Fatalf("the node ended:\n%s", n.text())
	}
}

// launch starts the node and does not wait for it.
func (n *node) launch(t testing.TB) {
	t.Helper()
	n.process = start(t, command{name: "node", program: nodeProgram, args: []string{"--config", "config.yaml"}, dir: n.dir})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (n *node) ready() bool {
	resp, err := http.Get(n.url + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// file is a path in the node's folder.
func (n *node) file(name string) string { return filepath.Join(n.dir, name) }

// id is the node's id, as its key file tells.
func (n *node) id(t testing.TB) string {
	t.Helper()
	return n.key(t).Public().Fingerprint()
}

func (n *node) key(t testing.TB) envelope.PrivateKey {
	t.Helper()
	key, err := envelope.LoadKey(n.file("keys/node_ed25519.pem"), nil)
	must(t, err)
	return key
}

// agentView is what a node tells of an agent.
type agentView struct {
	AgentID      string  `json:"agent_id"`
	State        string  `json:"state"`
	Reason       string  `json:"reason"`
	Score        float64 `json:"score"`
	PublicKey    string  `json:"public_key"`
	VouchedBy    string  `json:"vouched_by"`
	Capabilities []struct {
		Name      string `json:"name"`
		Available bool   `json:"available"`
	} `json:"capabilities"`
}

// agents asks GET /v1/agents.
func (n *node) agents(t testing.TB) map[string]agentView {
	t.Helper()
	var said struct {
		Agents []agentView `json:"agents"`
	}
	n.get(t, "/v1/agents?limit=1000", &said)
	out := make(map[string]agentView)
	for _, a := range said.Agents {
		out[a.AgentID] = a
	}
	return out
}

// awaitState waits until an agent is in the state; "" is unknown to the node.
func (n *node) awaitState(t testing.TB, agent, state string) {
	t.Helper()
	eventually(t, agent+" is "+state, func() bool { return n.agents(t)[agent].State == state })
}

func (n *node) get(t testing.TB, path string, into any) {
	t.Helper()
	resp, err := http.Get(n.url + path)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s", path, resp.Status, b)
	}
	must(t, json.Unmarshal(b, into))
}

// metrics reads /metrics: the value of each series by its name with labels, as it stands there.
func (n *node) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	resp, err := http.Get(n.url + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	out := make(map[string]float64)
	for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
		series, value, found := cutLast(scanner.Text(), " ")
		if found && !strings.HasPrefix(series, "#") {
			out[series], err = strconv.ParseFloat(value, 64)
			must(t, err)
		}
	}
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// cli runs agent-reach against the node and returns what it printed and its exit code.
func (n *node) cli(t testing.TB, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	return n.cliWith(t, "", args...)
}

// cliWith is cli with standard input. The caller's key stands in the node's folder.
func (n *node) cliWith(t testing.TB, stdin string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	p := start(t, command{
		name: "agent-reach " + strings.Join(args, " "), program: program, args: args, dir: n.dir,
		env: []string{"AGENT_REACH_NODE=" + n.url, "HOME=" + n.dir, "XDG_CONFIG_HOME=" + n.file("cli")},
	})
	_, _ = io.Copy(p.stdin, bytes.NewReader([]byte(stdin)))
	p.stdin.Close()
	exit = p.exit(t)
	return strings.Join(p.printed(false), "\n"), strings.Join(p.printed(true), "\n"), exit
}
