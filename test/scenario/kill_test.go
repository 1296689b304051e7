package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// TestNodeKilledAtAnyMoment kills a node while many agents register for the first time, again and again on the same port and folder. No file is ever
// broken, no accepted key is lost, the node's own key stays, and the agents that were attached are back shortly after the last start.
func TestNodeKilledAtAnyMoment(t *testing.T) {
	const rounds = 8
	n := startNode(t, nil)
	first := n.key(t).Public()
	var agents []*sdk.Agent
	for i := range 3 {
		agents = append(agents, serveEcho(t, n, fmt.Sprintf("stayer-%d", i), fmt.Sprintf("stayer-%d.echo", i)))
	}
	if havePython() {
		pythonAgent(t, n, "stayer-py", "stayer-py.echo=echo")
	}
	accepted := make(map[string]envelope.PublicKey)
	for round := range rounds {
		if round > 0 {
			n.start(t)
		}
		killAmidRegistrations(t, n, round, accepted)
		keys := readKeyStore(t, n)
		for id, key := range accepted {
			if keys[id] != key {
				t.Fatalf("round %d: the registration of %s was accepted, and its key is lost", round, id)
			}
		}
		if n.key(t).Public() != first {
			t.Fatalf("round %d: the node has another key", round)
		}
		if round%2 == 1 { // and once more, in the middle of its start
			n.launch(t)
			afterMoment(10 * time.Millisecond)
			n.kill()
			readKeyStore(t, n)
		}
	}
	n.start(t)
	for _, a := range agents {
		must(t, a.Ready(short(t)))
	}
	if havePython() {
		n.awaitState(t, "stayer-py", "available")
	}
	must(t, newAgent(t, n, "caller").Call(short(t), "stayer-1.echo", 1, nil))
	leftoversGo(t, n)
}

// leftoversGo lets a minute pass for what killed writers have left in the keys folder; the next write removes it.
func leftoversGo(t *testing.T, n *node) {
	t.Helper()
	old := time.Now().Add(-2 * time.Minute)
	for _, name := range keyFiles(t, n) {
		if strings.HasPrefix(name, ".") {
			must(t, os.Chtimes(n.file("keys/"+name), old, old))
		}
	}
	registered(t, n, "one-more")
	if names := keyFiles(t, n); !slices.Equal(names, []string{"node_ed25519.pem", "public_keys.json"}) {
		t.Errorf("%d files pile up in the keys folder: %v", len(names), names)
	}
}

// killAmidRegistrations lets 40 agents register at once, kills the node after some of them were accepted, and adds those to accepted.
func killAmidRegistrations(t *testing.T, n *node, round int, accepted map[string]envelope.PublicKey) {
	var mu sync.Mutex
	var count atomic.Int32
	enough, limit := make(chan struct{}), int32(1+rand.IntN(30))
	var all sync.WaitGroup
	for i := range 40 {
		v := newVoice(t, n, fmt.Sprintf("r%d-%d", round, i))
		h := v.header(envelope.Register, "")
		h.ToNode = n.id(t)
		doc := v.document(h, v.descriptor())
		all.Go(func() {
			r, err := v.tryPost(t.Context(), "/v1/agents", doc)
			if err != nil || r.status != http.StatusOK {
				return
			}
			mu.Lock()
			accepted[v.id] = v.key.Public()
			mu.Unlock()
			if count.Add(1) == limit {
				close(enough)
			}
		})
	}
	within(t, enough, "some registrations")
	n.kill()
	all.Wait()
}

// afterMoment waits for a random time: the moment of a kill is meant to be any.
func afterMoment(most time.Duration) { <-time.After(rand.N(most)) }

// readKeyStore reads public_keys.json, which must be whole.
func readKeyStore(t *testing.T, n *node) map[string]envelope.PublicKey {
	t.Helper()
	text, err := os.ReadFile(n.file("keys/public_keys.json"))
	must(t, err)
	var said struct {
		Agents map[string]envelope.PublicKey `json:"agents"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatalf("public_keys.json is broken: %v\n%s", err, text)
	}
	return said.Agents
}

// keyFiles lists the files in the keys folder.
func keyFiles(t *testing.T, n *node) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(n.file("keys"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	}))
	return names
}

// TestNodeKilledAtItsFirstStart: whenever the first start is cut, the key file is whole or not there, and the next start works.
func TestNodeKilledAtItsFirstStart(t *testing.T) {
	for range 6 {
		n := newNode(t, nil)
		n.launch(t)
		afterMoment(40 * time.Millisecond)
		n.kill()
		key, err := envelope.LoadKey(n.file("keys/node_ed25519.pem"), nil)
		if _, statErr := os.Stat(n.file("keys/node_ed25519.pem")); err != nil && !errors.Is(statErr, fs.ErrNotExist) {
			t.Fatalf("the key file is broken: %v", err)
		}
		n.start(t)
		if err == nil && n.key(t).Public() != key.Public() {
			t.Error("the node made another key")
		}
	}
}

// TestCallerAndAgentKilledAtAnyMoment: whoever dies, the others' calls go on, and what is left of the dead is gone from the node.
func TestCallerAndAgentKilledAtAnyMoment(t *testing.T) {
	n := startNode(t, nil)
	serveEcho(t, n, "stayer", "stayer.echo")
	caller := newAgent(t, n, "caller")
	for i := range 4 {
		agent := goAgent(t, n, "mortal", "mortal.hold=hold")
		client := startRole(t, n, "caller", "client", "mortal.hold", "{}", fmt.Sprintf("m-%d", i))
		agent.says(t, "running ")
		dying := []*process{agent, client}
		if i%2 == 1 {
			dying = []*process{client, agent}
		}
		for _, p := range dying {
			p.kill()
			must(t, caller.Call(short(t), "stayer.echo", 1, nil))
		}
		n.awaitState(t, "mortal", "unavailable")
		eventually(t, "no call runs any more", func() bool { return n.running(t, "mortal") == 0 })
	}
	if a := n.agents(t)["mortal"]; a.Reason == "" {
		t.Error("unavailable without a reason")
	}
}
