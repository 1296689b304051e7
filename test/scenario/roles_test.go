package scenario

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// The helper programs: agents and callers of the Go SDK in processes of their own, because they are to be killed.

// startRole starts this test binary as a helper program.
func startRole(t testing.TB, n *node, role string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return start(t, command{
		name: role + " " + strings.Join(args, " "), program: self, args: args, dir: n.dir,
		env: []string{roleVariable + "=" + role, "AGENT_REACH_NODE=" + n.url},
	})
}

func play(role string, args []string) int {
	run, ok := map[string]func([]string) error{"agent": playAgent, "caller": playCaller}[role]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such role:", role)
		return 2
	}
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// goAgent starts "agent ID NAME=BEHAVIOUR[:EFFECT] …", and returns when the node has found it ready. Behaviours are those of python/agent.py:
// echo and hold.
func goAgent(t testing.TB, n *node, id string, offers ...string) *process {
	t.Helper()
	p := startRole(t, n, "agent", append([]string{id}, offers...)...)
	n.awaitState(t, id, "available")
	return p
}

func playAgent(args []string) error {
	a, err := sdk.New(args[0], sdk.WithKeyFile(args[0]+".pem"))
	if err != nil {
		return err
	}
	released := make(chan struct{})
	var runs atomic.Int64
	hold := func(_ context.Context, r *sdk.Request) (any, error) {
		mine := runs.Add(1)
		fmt.Printf("running %s %d\n", r.Header.MsgID, mine)
		<-released
		return map[string]int64{"runs": mine}, nil
	}
	for _, one := range args[1:] {
		name, behaviour, _ := strings.Cut(one, "=")
		behaviour, effect, _ := strings.Cut(behaviour, ":")
		c := offer(name)
		c.Effect = envelope.Effect(effect)
		a.Handle(c, map[string]sdk.Handler{"echo": echo, "hold": hold}[behaviour])
	}
	var once sync.Once
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() == "release" {
				once.Do(func() { close(released) })
			}
		}
	}()
	return a.Run(context.Background())
}

// playCaller is "caller ID CAPABILITY PAYLOAD MSG_ID": one call, whose result it prints.
func playCaller(args []string) error {
	a, err := sdk.New(args[0], sdk.WithKeyFile(args[0]+".pem"))
	if err != nil {
		return err
	}
	defer a.Close()
	r, err := a.Do(context.Background(), sdk.Call{Capability: args[1], Input: jsontext.Value(args[2]), MsgID: args[3]})
	said := map[string]string{}
	if err != nil {
		said["code"] = string(envelope.AsError(err).Code)
	} else {
		said["payload"] = string(r.Payload)
	}
	b, err := json.Marshal(said)
	fmt.Println("result", string(b))
	return err
}
