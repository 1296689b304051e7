package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// relay is what the relay behaviour is asked: call the capability To with Payload. python/agent.py has the same.
type relay struct {
	To      string         `json:"to"`
	Payload jsontext.Value `json:"payload,omitzero"`
}

// along makes a request that goes from agent to agent, and at the end asks for a capability with {}.
func along(capabilities ...string) jsontext.Value {
	payload := jsontext.Value(`{}`)
	for i := len(capabilities) - 1; i > 0; i-- {
		payload, _ = json.Marshal(relay{capabilities[i], payload})
	}
	return payload
}

// serveRelay is a Go agent that relays; a last {} it answers by itself.
func serveRelay(t *testing.T, n *node, id string, limit int, runs *atomic.Int32) {
	a := newAgent(t, n, id, sdk.WithMaxConcurrent(limit))
	a.Handle(offer(id+".ask"), func(ctx context.Context, r *sdk.Request) (any, error) {
		runs.Add(1)
		var asked relay
		if err := r.Decode(&asked); err != nil || asked.To == "" {
			return "the end", err
		}
		var out jsontext.Value
		err := a.Call(ctx, asked.To, asked.Payload, &out)
		return out, err
	})
	serve(t, a)
}

// circleAgents starts a, b and c, which relay: Go and Python in turn where there is Python.
func circleAgents(t *testing.T, n *node, limit int) {
	var runs atomic.Int32
	for i, id := range []string{"a", "b", "c"} {
		if i%2 == 1 && havePython() {
			pythonAgent(t, n, id, id+".ask=relay", "--limit", fmt.Sprint(limit))
		} else {
			serveRelay(t, n, id, limit, &runs)
		}
	}
}

// TestCase29CallCycles: agents that run one request at a time and wait for each other in a circle get a loop error at once, not a time-out.
func TestCase29CallCycles(t *testing.T) {
	n := startNode(t, nil)
	circleAgents(t, n, 1)
	caller := newAgent(t, n, "caller")
	for _, way := range [][]string{
		{"a.ask", "b.ask", "a.ask"}, {"b.ask", "a.ask", "b.ask"}, {"a.ask", "a.ask"}, {"b.ask", "b.ask"},
		{"a.ask", "b.ask", "c.ask", "a.ask"}, {"b.ask", "c.ask", "a.ask", "b.ask"}, {"c.ask", "a.ask", "b.ask", "a.ask"},
	} {
		r, err := caller.Do(short(t), sdk.Call{Capability: way[0], Input: along(way...)})
		var own *sdk.AgentError
		if !errors.As(err, &own) || own.Code != string(envelope.Loop) {
			t.Errorf("%s: %+v, %v", strings.Join(way, " → "), r, err)
		}
	}
	for _, way := range [][]string{{"a.ask", "b.ask", "c.ask"}, {"b.ask", "c.ask", "a.ask"}} { // no circle, and the agents are free again
		if err := caller.Call(short(t), way[0], along(way...), nil); err != nil {
			t.Errorf("%s: %v", strings.Join(way, " → "), err)
		}
	}
}

// TestCase29DepthLimit: two agents with places to spare that call each other for ever are stopped at the seventeenth.
func TestCase29DepthLimit(t *testing.T) {
	n := startNode(t, nil)
	var runs atomic.Int32
	serveRelay(t, n, "ping", 64, &runs)
	if havePython() {
		pythonAgent(t, n, "pong", "pong.ask=relay", "--limit", "64")
	} else {
		serveRelay(t, n, "pong", 64, &runs)
	}
	way := strings.Split(strings.TrimSuffix(strings.Repeat("ping.ask pong.ask ", 15), " "), " ")
	caller := newAgent(t, n, "caller")
	err := caller.Call(short(t), way[0], along(way...), nil)
	var own *sdk.AgentError
	if !errors.As(err, &own) || own.Code != string(envelope.Loop) {
		t.Errorf("30 deep: %v", err)
	}
	if got := runs.Load(); got > envelope.MaxChain+1 {
		t.Errorf("a Go agent ran %d times", got)
	}
	if err := caller.Call(short(t), way[0], along(way[:11]...), nil); err != nil {
		t.Errorf("11 deep: %v", err)
	}
}

// TestCase29ChainIsChecked: the node counts the chain itself, whatever an SDK lets through, and a chain is sealed.
func TestCase29ChainIsChecked(t *testing.T) {
	n := startNode(t, nil)
	serveEcho(t, n, "echo", "echo.say")
	v := registered(t, n, "voice")
	ids := make([]string, envelope.MaxChain+1)
	for i := range ids {
		ids[i] = fmt.Sprintf("agent-%d", i)
	}
	long, err := json.Marshal(ids)
	must(t, err)
	r := v.post("/v1/messages", v.rawDocument(v.headerWith("echo.say", "chain", string(long)), `{}`))
	if p := r.problem(t); r.status != 508 || p.Code != envelope.Loop || p.Hint == "" {
		t.Errorf("a chain of 17: %d %s", r.status, r.body)
	}
	h := v.header(envelope.Request, "echo.say")
	h.Chain = ids[:3]
	doc := strings.Replace(string(v.document(h, `{}`)), `"agent-0",`, "", 1)
	if r := v.post("/v1/messages", []byte(doc)); r.problem(t).Code != envelope.BadSeal {
		t.Errorf("a shortened chain: %d %s", r.status, r.body)
	}
}
