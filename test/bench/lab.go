package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lab is a folder with the processes that work in it.
type lab struct {
	dir, bin, self string
	addr           string // of the node
	running        []*exec.Cmd
}

func newLab(_ context.Context, bin string) (*lab, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("%w; make build first", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agent-reach-bench-")
	if err != nil {
		return nil, err
	}
	return &lab{dir: dir, bin: bin, self: self}, nil
}

// close ends the processes, the youngest first.
func (l *lab) close() {
	for i := len(l.running) - 1; i >= 0; i-- {
		cmd := l.running[i]
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
	}
	os.RemoveAll(l.dir)
}

// start runs a program until it prints a line with the word ready, which is returned.
func (l *lab) start(program string, args []string, ready string) (string, *exec.Cmd, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "AGENT_REACH_NODE=http://"+l.addr)
	out, in, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	in.Close()
	l.running = append(l.running, cmd)
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), ready) {
			go io.Copy(io.Discard, out)
			return lines.Text(), cmd, nil
		}
		said = append(said, lines.Text())
	}
	return "", nil, fmt.Errorf("%s %v did not say %q:\n%s", filepath.Base(program), args, ready, strings.Join(said, "\n"))
}

// node starts a node without access log; that is a user's usual choice under load, and NATS writes none either.
func (l *lab) node() (*exec.Cmd, error) {
	l.addr = freeAddr()
	config := fmt.Sprintf("node:\n  listen_addr: %q\nlogging:\n  access_log_enabled: false\n", l.addr)
	if err := os.WriteFile(filepath.Join(l.dir, "config.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	_, cmd, err := l.start(l.bin, []string{"--config", "config.yaml"}, "gossip sync complete")
	return cmd, err
}

func freeAddr() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// rss is a process's resident memory in MB (10⁶ bytes).
func rss(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(b))[1], 64)
	return pages * float64(os.Getpagesize()) / 1e6, err
}

// perSecond makes calls from n goroutines for d and returns how many ended in a second.
func perSecond(ctx context.Context, n int, d time.Duration, call func(context.Context) error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	done := make([]int, n)
	errs := make([]error, n)
	began := time.Now()
	for i := range n {
		all.Go(func() {
			for time.Since(began) < d && errs[i] == nil {
				errs[i] = call(ctx)
				done[i]++
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	total := 0
	for i := range n {
		if errs[i] != nil {
			return 0, errs[i]
		}
		total += done[i]
	}
	return float64(total) / took.Seconds(), nil
}
