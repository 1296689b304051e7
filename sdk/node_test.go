package sdk_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// program is agent-reach, built when a test first needs it.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("sdk-test-%d-agent-reach", os.Getpid()))
	out, err := exec.Command("go", "build", "-o", path, "../cmd/agent-reach").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	built = path
	return path, nil
})

// built is the program's file, once there is one.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.Remove(built)
	}
	os.Exit(code)
}

// realNode is a node in a process of its own. Started again, it has the same address and key.
type realNode struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

// url is what agents are given.
func (n *realNode) url() string { return "http://" + n.addr }

// startNode starts a node with the lines added to its configuration, and returns when it is ready.
func startNode(t testing.TB, config ...string) *realNode {
	t.Helper()
	n, err := newRealNode(t.TempDir(), config...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

func newRealNode(dir string, config ...string) (*realNode, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	n := &realNode{addr: addr, dir: dir}
	text := "node:\n  listen_addr: " + addr + "\n  drain_timeout_sec: 5\n" + strings.Join(config, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return n, n.start()
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (n *realNode) start() error {
	path, err := program()
	if err != nil {
		return err
	}
	n.cmd = exec.Command(path, "--config", "config.yaml")
	n.cmd.Dir = n.dir
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		return err
	}
	if !eventually(func() bool { return get(n.url()+"/readyz", nil) == nil }) {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("the node is not ready:\n%s", text)
	}
	return nil
}

// kill ends the node without a chance to say anything.
func (n *realNode) kill() {
	n.cmd.Process.Kill()
	n.cmd.Wait()
}

// eventually asks until the answer is yes, for as long as patience allows.
func eventually(yes func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		if yes() {
			return true
		}
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
}

func get(url string, into any) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Status, b)
	case into == nil:
		return nil
	}
	return json.Unmarshal(b, into)
}

// agentAt is what a node says of an agent.
type agentAt struct {
	State        string  `json:"state"`
	Reason       string  `json:"reason"`
	Score        float64 `json:"score"`
	Capabilities []struct {
		Name      string `json:"name"`
		Available bool   `json:"available"`
	} `json:"capabilities"`
}

func (n *realNode) agent(id string) (a agentAt) {
	_ = get(n.url()+"/v1/agents/"+id, &a) // unknown: no state
	return a
}

// serving runs the agent until the test ends, and returns when it gets calls.
func serving(t *testing.T, a interface {
	Run(context.Context) error
	Ready(context.Context) error
}) (stop func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(cancel)
	if err := a.Ready(short(t)); err != nil {
		t.Fatal(err)
	}
	return cancel, done
}
