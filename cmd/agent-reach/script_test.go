package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// TestMain lets the scripts run this very program as agent-reach, in processes of their own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agent-reach": main})
}

// TestScripts runs testdata/*.txtar. Each has a folder, a free port ($NODE is the node's URL there) and an HTTP agent without a key
// ($PLAIN) of its own.
//
//	exits CODE command…       runs the command, which must exit with the code
//	eventually CODE command…  the same, again until it does, for at most 20 s
//	sdkagent ID               an agent of the Go SDK, at $NODE until the script ends
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: prepare,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "eventually": eventually, "sdkagent": sdkAgent,
		},
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
	})
}

func prepare(env *testscript.Env) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	plain := httptest.NewServer(http.HandlerFunc(plainAgent))
	env.Defer(plain.Close)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/.config")
	env.Setenv("ADDR", addr)
	env.Setenv("NODE", "http://"+addr)
	env.Setenv("AGENT_REACH_NODE", "http://"+addr)
	env.Setenv("PLAIN", plain.URL)
	return nil
}

// plainAgent knows nothing of Agent-Reach: JSON in, JSON out. It puts characters into its answer that would act on a terminal.
func plainAgent(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path == "/broken" {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"asked\": %s,\"text\": \"\u202e\u009b31m\"}", body)
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, args[1:]); got != want {
		ts.Fatalf("%s exited with %d, not %d\n%s\n%s", strings.Join(args[1:], " "), got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for exitCode(ts, args[1:]) != want {
		select {
		case <-again.C:
		case <-ctx.Done():
			ts.Fatalf("%s does not exit with %d\n%s\n%s", strings.Join(args[1:], " "), want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

func exitCode(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	ts.Fatalf("%s: %v", args[0], err)
	return -1
}

func sdkAgent(ts *testscript.TestScript, _ bool, args []string) {
	a, err := sdk.New(args[0], sdk.WithNode(ts.Getenv("NODE")), sdk.WithDrain(0), sdk.WithLogger(slog.New(slog.DiscardHandler)))
	ts.Check(err)
	offer := func(name string, h sdk.Handler) { a.Handle(sdk.Capability{Name: name, Version: "1.2.0"}, h) }
	offer("echo.say", func(_ context.Context, r *sdk.Request) (any, error) { return map[string]any{"said": 1}, nil })
	offer("echo.fail", func(_ context.Context, r *sdk.Request) (any, error) {
		return nil, &sdk.AgentError{Code: "sold_out", Text: "none left"}
	})
	offer("echo.slow", func(ctx context.Context, r *sdk.Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
	a.HandleStream(sdk.Capability{Name: "echo.count", Version: "1.0.0"}, func(_ context.Context, r *sdk.Request, send func(any) error) error {
		for i := range 3 {
			if err := send(i); err != nil {
				return err
			}
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	ts.Defer(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, envelope.Unreachable) {
			ts.Logf("agent %s: %v", args[0], err)
		}
	})
}
