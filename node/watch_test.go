package node

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// watched runs Watch on a file for as long as the test, and hands on every reload.
type watched struct {
	t       *testing.T
	file    string
	reloads chan string // what the file said
	log     *logBuffer
}

func watch(t *testing.T, file string, reload func() error) *watched {
	t.Helper()
	w := &watched{t: t, file: file, reloads: make(chan string, 100), log: &logBuffer{wrote: make(chan struct{}, 1)}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, file, slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), func() error {
			text, _ := os.ReadFile(file)
			err := reload()
			w.reloads <- string(text)
			return err
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// saw waits until a reload read want.
func (w *watched) saw(want string) {
	w.t.Helper()
	deadline := time.After(8 * time.Second)
	for {
		select {
		case got := <-w.reloads:
			if got == want {
				return
			}
		case <-deadline:
			w.t.Fatalf("no reload read %q; log:\n%s", want, w.log)
		}
	}
}

func (w *watched) logged(want string) {
	w.t.Helper()
	deadline := time.After(8 * time.Second)
	for !strings.Contains(w.log.String(), want) {
		select {
		case <-w.log.wrote:
		case <-deadline:
			w.t.Fatalf("the log does not say %q:\n%s", want, w.log)
		}
	}
}

func good() error { return nil }

func TestWatchSeesWritesRenamesAndReturns(t *testing.T) {
	w := watch(t, write(t, "f.yaml", "one"), good)
	w.saw("one") // at its start
	write(t, w.file, "two, longer")
	w.saw("two, longer")
	if err := envelope.WriteFile(w.file, []byte("three")); err != nil { // by rename, as editors do
		t.Fatal(err)
	}
	w.saw("three")
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	w.logged("the file cannot be read; what it said last stays in force")
	write(t, w.file, "four")
	w.saw("four")
}

func TestWatchSeesKubernetesSwapItsLink(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "f.yaml"), text)
		link(t, name, filepath.Join(dir, "..new"))
		if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "one")
	file := filepath.Join(dir, "f.yaml")
	link(t, filepath.Join("..data", "f.yaml"), file)
	w := watch(t, file, good)
	w.saw("one")
	version("..2", "two")
	w.saw("two")
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	version("..3", "three")
	w.saw("three")
}

func TestWatchSeesTheTargetOfALinkChange(t *testing.T) {
	target, file := write(t, "real.yaml", "one"), filepath.Join(t.TempDir(), "f.yaml")
	link(t, target, file)
	w := watch(t, file, good)
	w.saw("one")
	write(t, target, "two!")
	w.saw("two!")
}

func TestWatchReadsAgainOnSIGHUP(t *testing.T) {
	w := watch(t, write(t, "f.yaml", "one"), good)
	w.saw("one")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.saw("one")
}

func TestABadTableIsLoggedWithItsPlaceAndKeptOut(t *testing.T) {
	file := write(t, "permissions.yaml", table)
	p, err := OpenPermissions(file)
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, file, p.Reload)
	w.saw(table)
	before := p.Table()
	write(t, file, "rules:\n  - alow: {caller: a}\n")
	w.logged("permissions.yaml:2: rules[0].alow: no such key")
	w.logged("level=ERROR")
	if err := p.Table().Check("order-agent", "stock.query", "x"); err != nil || len(p.Table().Rules) != len(before.Rules) {
		t.Errorf("the old table is not in force: %v", err)
	}
	write(t, file, "rules: []\n")
	w.saw("rules: []\n")
	if len(p.Table().Rules) != 0 {
		t.Error("the new table is not in force")
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// logBuffer is what a logger wrote, safe for use while it writes.
type logBuffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.wrote <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
