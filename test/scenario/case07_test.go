package scenario

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// TestCase07NameConflict: of two keys for one id the first stays, whoever the other is and however it comes; it is told why.
func TestCase07NameConflict(t *testing.T) {
	n := startNode(t, nil)
	holder := newAgent(t, n, "stock-01")
	holder.Handle(offer("stock.query"), echo)
	serve(t, holder)
	before := countLines(n, `"agent state changed","id":"stock-01"`)

	rival := newAgent(t, n, "stock-01")
	rival.Handle(offer("stock.query"), func(context.Context, *sdk.Request) (any, error) { return "the rival answers", nil })
	refusedAs(t, "a Go agent", rival.Run(short(t)), envelope.Conflict)
	if havePython() {
		p := runPython(t, n, nil, "python/agent.py", "stock-01", "stock.query=echo")
		p.says(t, "conflict")
		if code := p.exit(t); code == 0 {
			t.Error("a Python agent whose id is taken exits with 0")
		}
	}
	v := newVoice(t, n, "stock-01")
	if r := v.register(); r.status != http.StatusConflict || r.problem(t).Code != envelope.Conflict || r.problem(t).Hint == "" {
		t.Errorf("over HTTP: %d %s", r.status, r.body)
	}
	file := descriptorFile(t, n, "stock-01", "stock.query", "http://127.0.0.1:9")
	if stdout, _, exit := n.cli(t, "attach", file, "--config", "config.yaml", "--json"); exit != 3 || !strings.Contains(stdout, `"conflict"`) {
		t.Errorf("attach exited with %d: %s", exit, stdout)
	}
	if r := newVoice(t, n, n.id(t)).register(); r.status == http.StatusOK {
		t.Errorf("an agent has the node's id: %s", r.body)
	}

	caller := newAgent(t, n, "caller")
	for range 20 {
		r, err := caller.Do(short(t), sdk.Call{Capability: "stock.query", Input: 1})
		if err != nil || string(r.Payload) != "1" {
			t.Fatalf("the holder's answer: %+v, %v", r, err)
		}
	}
	if after := countLines(n, `"agent state changed","id":"stock-01"`); after != before {
		t.Errorf("the holder's state changed %d times because of rivals", after-before)
	}
	keys, err := os.ReadFile(n.file("keys/public_keys.json"))
	if must(t, err); !strings.Contains(string(keys), `"stock-01": "`+holder.PublicKey().String()+`"`) {
		t.Errorf("the key store says %s", keys)
	}
}

func refusedAs(t *testing.T, who string, err error, code envelope.Code) {
	t.Helper()
	var e *envelope.Error
	if !errors.As(err, &e) || e.Code != code || e.Hint == "" {
		t.Errorf("%s got %v, not %s with a hint", who, err, code)
	}
}

func countLines(n *node, words string) (count int) {
	for _, text := range n.printed(true) {
		if strings.Contains(text, words) {
			count++
		}
	}
	return count
}

// TestCase07SameKeyTwice: two processes with one id and one key, a copied deployment. The later one has the id, and it does not go to and fro.
func TestCase07SameKeyTwice(t *testing.T) {
	n := startNode(t, nil)
	key := envelope.GenerateKey()
	var twins [2]*sdk.Agent
	for i := range twins {
		twins[i] = newAgent(t, n, "twin", sdk.WithKey(key), sdk.WithHeartbeat(time.Second))
		twins[i].Handle(offer("twin.which"), func(context.Context, *sdk.Request) (any, error) { return i, nil })
		serve(t, twins[i])
	}
	caller := newAgent(t, n, "caller")
	heartbeats := func() float64 { return n.metrics(t)[`agent_reach_messages_total{msg_type="heartbeat"}`] }
	first := heartbeats()
	eventually(t, "both have sent heartbeats", func() bool {
		var which int
		if err := caller.Call(short(t), "twin.which", nil, &which); err != nil || which != 1 {
			t.Fatalf("twin %d answers: %v", which, err)
		}
		return heartbeats() >= first+4
	})
	if got := countLines(n, `"agent registered","id":"twin"`); got != 2 {
		t.Errorf("the two registered %d times", got)
	}
	twins[1].Close()
	n.awaitState(t, "twin", "available")
	var which int
	if err := caller.Call(short(t), "twin.which", nil, &which); err != nil || which != 0 {
		t.Errorf("after the winner has left, twin %d answers: %v", which, err)
	}
}
