package registry

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestHeartbeatLoad(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	a.mustRegister(`,"max_concurrent_requests":4,"current_load":1`, "stock.query")
	score := func() float64 { return n.Paths.Score(n.Directory.Agent("stock"), time.Now()) }
	quarter := score()
	if quarter >= 10 {
		t.Fatal("the load at registration does not count")
	}
	s, err := a.heartbeat(`{"current_load": 4}`)
	if err != nil || s.Score >= quarter/2+1 || s.State != envelope.Available {
		t.Fatal(s, quarter, err)
	}
	if s, err := a.heartbeat(`{"current_load": 0}`); err != nil || s.Score != 10 {
		t.Fatal(s, err)
	}
	for _, bad := range []string{`{"current_load": -1}`, `{"current_load": "much"}`, `{"currentload": 1}`, `{"current_load": 1e99}`, `[]`, `{"a":1,"a":1}`} {
		_, err := a.heartbeat(bad)
		wantError(t, err, envelope.Malformed)
	}
}

// Busy hours: fewer capabilities, without registering anew.
func TestHeartbeatSwitchesCapabilities(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	a.mustRegister("", "stock.query", "stock.count", "stock.move")
	caller := newCaller(n)
	off := func() (out string) {
		for _, o := range n.Directory.Agent("stock").Offers {
			if o.Off {
				out += o.Name + " "
			}
		}
		return out
	}
	if _, err := a.heartbeat(`{"capabilities": ["stock.query"]}`); err != nil || off() != "stock.count stock.move " {
		t.Fatal(off(), err)
	}
	_, err := caller.call(t.Context(), "stock.count", "{}")
	wantError(t, err, envelope.NoRoute, "switched stock.count off")
	if _, err := caller.call(t.Context(), "stock.query", "{}"); err != nil {
		t.Fatal(err)
	}
	_, err = a.heartbeat(`{"capabilities": ["stock.query", "stock.sell", "st\u043ek"]}`)
	wantError(t, err, envelope.Malformed, "stock.sell", `st\u043ek`)
	if off() != "stock.count stock.move " {
		t.Fatal("a refused heartbeat changed something")
	}
	before := n.Directory.Agent("stock")
	if _, err := a.heartbeat(`{"capabilities": ["stock.query"], "current_load": 1}`); err != nil || n.Directory.Agent("stock") != before {
		t.Fatal("a heartbeat that changes nothing made a new record", err)
	}
	if _, err := a.heartbeat(`{"capabilities": []}`); err != nil || len(strings.Fields(off())) != 3 {
		t.Fatal(off(), err)
	}
	if _, err := a.heartbeat(`{}`); err != nil || off() != "" {
		t.Fatal(off(), err)
	}
	if v := n.Directory.Agent("stock").Version; v <= before.Version {
		t.Fatal("the record's version did not grow", v)
	}
}

func TestReplays(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	first := a.says(envelope.Register, a.descriptor("", "old"), func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(-10 * time.Second) })
	older := a.says(envelope.Register, a.descriptor("", "older"), func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(-20 * time.Second) })
	beat := a.says(envelope.Heartbeat, `{"capabilities":[]}`, func(h *envelope.Header) { h.Timestamp.Time = time.Now().Add(-5 * time.Second) })
	if _, err := a.tell(first); err != nil {
		t.Fatal(err)
	}
	a.mustRegister("", "new")
	_, err := a.tell(first)
	wantError(t, err, envelope.Duplicate)
	_, err = a.tell(older)
	wantError(t, err, envelope.Expired, "later one stays")
	if n.Directory.Agent("stock").Offer("new") == nil {
		t.Fatal("an older registration replaced a newer one")
	}
	if _, err := a.heartbeat(`{"capabilities":["new"]}`); err != nil {
		t.Fatal(err)
	}
	if _, err := a.tell(beat); err != nil { // it was overtaken: a sign of life, but no news
		t.Fatal(err)
	}
	if n.Directory.Agent("stock").Offer("new").Off {
		t.Fatal("an older heartbeat undid a newer one")
	}
	_, err = a.tell(beat)
	wantError(t, err, envelope.Duplicate)
}

func (n *node) ticket(caller, agent string, expires time.Duration) string {
	n.t.Helper()
	doc, err := envelope.SealTicket(n.key, envelope.Ticket{
		ID: rand.Text(), Node: n.Node, Caller: caller, CallerKey: n.key.Public(), Capability: "stock.query", Agent: agent,
		Expires: envelope.Timestamp{Time: time.Now().Add(expires)},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return string(doc)
}

func TestOutcomesOfDirectCalls(t *testing.T) {
	n := newNode(t, nil)
	newAgent(n, "stock").mustOpen().mustRegister("", "stock.query")
	caller := newCaller(n)
	tell := func(ticket, rest string) {
		t.Helper()
		if _, err := caller.heartbeat(`{"outcomes":[{"ticket":` + ticket + rest + `}]}`); err != nil {
			t.Fatal(err)
		}
	}
	success := func() float64 { return n.Paths.Factors(n.Directory.Agent("stock"), time.Now()).Success }
	fresh := n.ticket("orders", "stock", time.Minute)
	tell(fresh, `,"ok":true,"latency_ms":500`)
	if f := n.Paths.Factors(n.Directory.Agent("stock"), time.Now()); f.Latency > 0.7 || f.Success != 1 {
		t.Fatalf("%+v\n%s", f, n.log)
	}
	for name, ticket := range map[string]string{
		"told twice":      fresh,
		"of another":      n.ticket("someone", "stock", time.Minute),
		"long past":       n.ticket("orders", "stock", -11*time.Minute),
		"of no one here":  n.ticket("orders", "nobody", time.Minute),
		"not a ticket":    `{"body":{},"sig":""}`,
		"of another node": newNode(t, nil).ticket("orders", "stock", time.Minute),
	} {
		tell(ticket, `,"ok":false,"code":"timeout"`)
		if success() != 1 {
			t.Fatalf("a ticket %s counts", name)
		}
	}
	if !strings.Contains(n.log.String(), "outcomes of direct calls not counted") {
		t.Fatal("dropped in silence")
	}
	tell(n.ticket("orders", "stock", time.Minute), `,"ok":true,"latency_ms":-1`)
	tell(n.ticket("orders", "stock", time.Minute), `,"ok":false,"code":"schema_invalid"`)
	if success() != 1 {
		t.Fatal("a caller's own fault counts against the agent")
	}
	for range 3 {
		tell(n.ticket("orders", "stock", -9*time.Minute), `,"ok":false,"code":"unreachable"`)
	}
	if s := success(); s != 0.25 || n.state("stock") != envelope.Available {
		t.Fatal(s, n.state("stock"), "a caller's word alone lowers the score, and changes no state")
	}
	many := make([]string, maxOutcomes+1)
	for i := range many {
		many[i] = `{"ok":true}`
	}
	_, err := caller.heartbeat(`{"outcomes":[` + strings.Join(many, ",") + `]}`)
	wantError(t, err, envelope.TooLarge)
}

func FuzzHeartbeat(f *testing.F) {
	f.Add([]byte(`{"current_load":3,"capabilities":["stock.query"],"outcomes":[{"ticket":{"body":{},"sig":""},"ok":true,"code":"","latency_ms":12.5}]}`))
	f.Add([]byte(`{"capabilities":null}`))
	g := &registration{}
	e := &entry{id: "stock", current: g}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b beat
		if json.Unmarshal(payload, &b, json.RejectUnknownMembers(true)) != nil || b.check() != nil {
			return
		}
		if _, err := e.switched(b.Capabilities); err == nil && b.Capabilities != nil && len(*b.Capabilities) > 0 {
			t.Fatal("names that were not registered were taken")
		}
	})
}

// Case 26: what comes is taken or refused, and the bound holds.
func TestMaxAgents(t *testing.T) {
	n := newNode(t, func(c *Config) { c.MaxAgents = 10 })
	errs := make(chan error)
	for i := range 40 {
		a := newAgent(n, fmt.Sprint("a", i))
		go func() { _, err := a.register(""); errs <- err }()
	}
	taken := 0
	for range 40 {
		if err := <-errs; err == nil {
			taken++
		} else {
			wantError(t, err, envelope.Overloaded, "10 agents")
		}
	}
	if taken != 10 || n.Directory.Len() != 10 || len(n.Views()) != 10 {
		t.Fatal(taken, n.Directory.Len())
	}
}
