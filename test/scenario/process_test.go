package scenario

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// process is a program under test in a process of its own. It does not outlive the test.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when it has ended and all that it printed is in lines

	mu    sync.Mutex
	lines []line
	news  chan struct{} // closed and replaced with every line
}

type line struct {
	text string
	log  bool // of standard error
}

// command is what start runs; env adds to this process's environment.
type command struct {
	name, program, dir string
	args, env          []string
}

func start(t testing.TB, c command) *process {
	t.Helper()
	p := &process{name: c.name, ended: make(chan struct{}), news: make(chan struct{})}
	p.cmd = exec.Command(c.program, c.args...)
	p.cmd.Dir, p.cmd.Env = c.dir, append(os.Environ(), c.env...)
	leash(p.cmd)
	stdin, err := p.cmd.StdinPipe()
	must(t, err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	must(t, err)
	stderr, err := p.cmd.StderrPipe()
	must(t, err)
	must(t, p.cmd.Start())
	go p.read(stdout, stderr)
	t.Cleanup(func() {
		p.kill()
		p.checkHealth(t)
	})
	return p
}

func (p *process) read(stdout, stderr io.Reader) {
	var both sync.WaitGroup
	both.Go(func() { p.take(stdout, false) })
	both.Go(func() { p.take(stderr, true) })
	both.Wait()
	_ = p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	close(p.news)
	p.news = make(chan struct{})
}

func (p *process) take(from io.Reader, log bool) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, line{scanner.Text(), log})
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
}

// checkHealth fails the test for what no program may print, and shows the output where the test failed anyhow.
func (p *process) checkHealth(t testing.TB) {
	text := p.text()
	for _, bad := range []string{"DATA RACE", "panic:", "panic in a handler", "fatal error:", "PRIVATE KEY"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s printed %q", p.name, bad)
		}
	}
	if t.Failed() {
		t.Logf("output of %s:\n%s", p.name, tail(text, 6000))
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// says waits until the process has printed a line with these words, and returns the line.
func (p *process) says(t testing.TB, words string) string {
	t.Helper()
	return p.saysFrom(t, 0, words)
}

// saysFrom is says, looking only at the lines from number from on.
func (p *process) saysFrom(t testing.TB, from int, words string) string {
	t.Helper()
	late := short(t)
	for {
		found, ended, news := p.find(from, words)
		switch {
		case found != "":
			return found
		case ended:
			t.Fatalf("%s ended and never said %q:\n%s", p.name, words, tail(p.text(), 6000))
		}
		select {
		case <-news:
		case <-late.Done():
			t.Fatalf("%s did not say %q in time", p.name, words)
		}
	}
}

func (p *process) find(from int, words string) (found string, ended bool, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines[min(from, len(p.lines)):] {
		if strings.Contains(l.text, words) {
			return l.text, false, nil
		}
	}
	select {
	case <-p.ended:
		return "", true, nil
	default:
		return "", false, p.news
	}
}

// printed lists what was printed so far: on standard error (log) or on standard output.
func (p *process) printed(log bool) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.log == log {
			out = append(out, l.text)
		}
	}
	return out
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// tell writes a line to the process's standard input.
func (p *process) tell(t testing.TB, text string) {
	t.Helper()
	_, err := io.WriteString(p.stdin, text+"\n")
	must(t, err)
}

// kill is kill -9; it returns when the process has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// signal sends a signal.
func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	must(t, p.cmd.Process.Signal(s))
}

// exit waits for the process to end by itself, and returns its exit code.
func (p *process) exit(t testing.TB) int {
	t.Helper()
	within(t, p.ended, "the end of "+p.name)
	return p.cmd.ProcessState.ExitCode()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
