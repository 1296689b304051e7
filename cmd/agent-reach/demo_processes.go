package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stage holds the processes of one demo and the folder that they work in.
type stage struct {
	dir    string
	self   string // this program
	node   string // http://127.0.0.1:port
	python string
	mu     sync.Mutex
	actors []*actor
}

// actor is one process. Its output is kept, bounded, for the case that it fails.
type actor struct {
	name  string
	cmd   *exec.Cmd
	lines chan string // what it prints; closed at its end
	ended chan struct{}
	tail  []string // its last lines, readable once ended is closed
}

func newStage(python string) (*stage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agent-reach-demo-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if python != "" {
		if python, err = filepath.Abs(python); err != nil {
			return nil, err
		}
	}
	s := &stage{dir: dir, self: self, node: "http://" + addr, python: python}
	return s, s.writeConfig(addr)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// The table of the demo: everything is allowed but one thing, so that a refusal can be shown.
const demoPermissions = `rules:
  - deny: {caller: "demo-caller", capability: "order.*", agent: "*"}
  - allow: {caller: "*", capability: "*", agent: "*"}
`

func (s *stage) writeConfig(addr string) error {
	config := fmt.Sprintf("node:\n  listen_addr: %q\nauth:\n  permissions_file: permissions.yaml\nlogging:\n  format: text\n", addr)
	if err := os.WriteFile(filepath.Join(s.dir, "config.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "permissions.yaml"), []byte(demoPermissions), 0o600)
}

// start runs a program in the stage's folder. It ends with the demo at the latest, even if the demo is killed.
func (s *stage) start(name, program string, args []string, env ...string) (*actor, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), append(env, "AGENT_REACH_NODE="+s.node, "PYTHONUNBUFFERED=1", "PYTHONIOENCODING=utf-8")...)
	dieWithParent(cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	in.Close()
	a := &actor{name: name, cmd: cmd, lines: make(chan string, 256), ended: make(chan struct{})}
	go a.read(out)
	s.mu.Lock()
	s.actors = append(s.actors, a)
	s.mu.Unlock()
	return a, nil
}

func (a *actor) read(out *os.File) {
	defer close(a.ended)
	defer close(a.lines)
	defer out.Close()
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		line := scanner.Text()
		if a.tail = append(a.tail, line); len(a.tail) > 20 {
			a.tail = a.tail[1:]
		}
		select {
		case a.lines <- line:
		default: // nobody is waiting for a line
		}
	}
	_ = a.cmd.Wait()
}

// says waits until the process prints a line with these words.
func (a *actor) says(ctx context.Context, words string) error {
	for {
		select {
		case line, ok := <-a.lines:
			if !ok {
				return fmt.Errorf("%s ended before it said %q:\n%s", a.name, words, strings.Join(a.tail, "\n"))
			}
			if strings.Contains(line, words) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%s did not say %q in time", a.name, words)
		}
	}
}

// kill is kill -9.
func (a *actor) kill() {
	_ = a.cmd.Process.Kill()
	<-a.ended
}

// stop is SIGTERM, and SIGKILL for whoever does not heed it.
func (a *actor) stop() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-a.ended:
	case <-time.After(5 * time.Second):
		a.kill()
	}
}

// close ends every process, the youngest first, and removes the folder.
func (s *stage) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.actors) - 1; i >= 0; i-- {
		s.actors[i].stop()
	}
	os.RemoveAll(s.dir)
}

// ready waits until the node answers /readyz.
func (s *stage) ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(s.node + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the node at %s is not ready in time", s.node)
		}
	}
}
