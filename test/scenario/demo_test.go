package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startDemo runs agent-reach demo in a process group and with a folder for temporary files of its own.
func startDemo(t *testing.T, args ...string) (p *process, temp string) {
	t.Helper()
	temp = t.TempDir()
	return start(t, command{name: "demo", program: program, args: append([]string{"demo"}, args...), env: []string{"TMPDIR=" + temp}}), temp
}

// group lists the processes of p's group, itself included, that are still there.
func (p *process) group(t *testing.T) (alive []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("not run: there is no /proc here")
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		_, rest, found := strings.Cut(string(text), ") ") // state, parent, group
		fields := strings.Fields(rest)
		if err == nil && found && len(fields) > 2 && fields[0] != "Z" && fields[2] == fmt.Sprint(p.cmd.Process.Pid) {
			alive = append(alive, string(text))
		}
	}
	return alive
}

// TestDemo tells its story, and leaves no process and no file.
func TestDemo(t *testing.T) {
	var args []string
	if havePython() {
		args = []string{"--python", python(t), "--article", "article"}
	}
	p, temp := startDemo(t, args...)
	if exit := p.exit(t); exit != 0 {
		t.Fatalf("exit %d: %s", exit, p.text())
	}
	lines := p.printed(false)
	if last := lines[len(lines)-1]; last != "demo: ok" {
		t.Errorf("its last line is %q", last)
	}
	story := strings.Join(lines, "\n")
	for _, words := range []string{"by capability", "by id", "schema_invalid", "forbidden", "duplicate", "kill -9", "20 calls, 20 answers"} {
		if !strings.Contains(story, words) {
			t.Errorf("no %q in the story:\n%s", words, story)
		}
	}
	if left := p.group(t); len(left) != 0 {
		t.Errorf("still running: %q", left)
	}
	if files, err := os.ReadDir(temp); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// TestDemoKilled: a demo that is itself killed in the middle takes its processes along.
func TestDemoKilled(t *testing.T) {
	p, _ := startDemo(t)
	p.says(t, "attached")
	if len(p.group(t)) < 3 {
		t.Fatal("a demo of fewer than three processes")
	}
	must(t, p.cmd.Process.Kill())
	eventually(t, "all of its processes have ended", func() bool { return len(p.group(t)) == 0 })
}
