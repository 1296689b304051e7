package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is agent-reach, built for these tests; nodeProgram is the same that nodes run, with the race detector where the tests have it.
var program, nodeProgram string

// roleVariable makes this test binary play a helper program instead of testing.
const roleVariable = "SCENARIO_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	os.Exit(runBuilt(m))
}

func runBuilt(m *testing.M) int {
	if program = os.Getenv("AGENT_REACH_BIN"); program != "" {
		nodeProgram = program
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "scenario")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "agent-reach")
	nodeProgram = program
	err = build(program)
	if err == nil && raceEnabled {
		nodeProgram = filepath.Join(dir, "agent-reach-race")
		err = build(nodeProgram, "-race")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(to string, flags ...string) error {
	args := append([]string{"build", "-o", to}, flags...)
	if out, err := exec.Command("go", append(args, "../../cmd/agent-reach")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// scaled is a number of repetitions, fewer where the race detector makes each of them slow.
func scaled(n int) int {
	if raceEnabled {
		return n / 5
	}
	return n
}
