package ingress

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

func (w *world) get(path string, v any) {
	w.Helper()
	g := w.send("GET", path, nil)
	if g.status != http.StatusOK || g.header.Get("Content-Type") != jsonType {
		w.Fatalf("%s: %d %s", path, g.status, g.body)
	}
	unmarshal(w, g.body, v)
}

func TestLeaseCallsByName(t *testing.T) {
	w := start(t)
	p := w.caller("agent")
	put := func(path string, e *envelope.Envelope) got { return w.send("PUT", path, document(t, e)) }
	remove := func(path string, e *envelope.Envelope) got { return w.send("DELETE", path, document(t, e)) }
	beat := func() *envelope.Envelope { return p.seal(p.header(envelope.Heartbeat), "{}") }
	leave := func() *envelope.Envelope { return p.seal(p.header(envelope.Unregister), "{}") }

	if got := put("/v1/agents/agent/heartbeat", beat()).envelope(t); got.Verify(w.key.Public()) != nil || got.Header.TargetAgent != "agent" {
		t.Errorf("%+v", got.Header)
	}
	put("/v1/agents/other/heartbeat", beat()).problem(t, envelope.Malformed, 400)
	put("/v1/agents/agent/heartbeat", leave()).problem(t, envelope.Malformed, 400)
	w.post("/v1/agents", beat()).problem(t, envelope.Malformed, 400)
	w.post("/v1/messages", beat()).envelope(t)
	remove("/v1/agents/other", leave()).problem(t, envelope.Malformed, 400)
	remove("/v1/agents/agent", leave()).envelope(t)
	var left departedView
	w.get("/v1/agents/agent", &left)
	if left.State != envelope.Removed || left.PublicKey != p.key.Public() {
		t.Errorf("of an agent that has left: %+v", left)
	}
	w.send("GET", "/v1/agents/nobody", nil).problem(t, envelope.NoRoute, 404)
}

// The operator speaks with the node's key for agents that have none.
func TestKeylessAgents(t *testing.T) {
	w := start(t)
	node := &party{world: w, id: w.id, key: w.key}
	descriptor := `{"agent_id":"plain","capabilities":[{"name":"x","version":"1.0.0"}],"endpoint":{"type":"http","url":"http://127.0.0.1:1/"}}`
	answer := w.post("/v1/agents", node.seal(node.header(envelope.Register), descriptor)).envelope(t)
	if !strings.Contains(string(answer.Payload), `"plain"`) {
		t.Fatalf("%s", answer.Payload)
	}
	var view agentView
	w.get("/v1/agents/plain", &view)
	if view.EndpointType != "http" {
		t.Errorf("%+v", view)
	}
	h := node.header(envelope.Unregister)
	h.TargetAgent = "other"
	w.send("DELETE", "/v1/agents/plain", document(t, node.seal(h, "{}"))).problem(t, envelope.Malformed, 400)
	h = node.header(envelope.Unregister)
	h.TargetAgent = "plain"
	w.send("DELETE", "/v1/agents/plain", document(t, node.seal(h, "{}"))).envelope(t)
	w.send("GET", "/v1/agents/plain", nil).problem(t, envelope.NoRoute, 404)
}

// populate puts records into the directory: agent-000 … with capability common, every tenth suspect, and one capability each.
func (w *world) populate(n int) {
	for i := range n {
		p := &party{world: w, id: fmt.Sprintf("agent-%03d", i), key: envelope.GenerateKey()}
		d := p.descriptor("common", "own."+p.id)
		d.Capabilities[0].Version = fmt.Sprintf("1.%d.0", i%3)
		d.Capabilities[0].InputSchema = jsontext.Value(`{"type":"object"}`)
		if err := w.seats.publish(d); err != nil {
			w.Fatal(err)
		}
		if i%10 == 0 {
			r := *w.seats.directory.Agent(p.id)
			r.State, r.Reason = envelope.Suspect, "3 failures in a row"
			w.seats.directory.Put(&r)
		}
	}
}

func TestAgentsInPages(t *testing.T) {
	w := start(t)
	w.populate(25)
	all := func(query string) (ids []string) {
		after := ""
		for range 100 {
			var list agentList
			w.get("/v1/agents?"+query+"&after="+after, &list)
			for _, a := range list.Agents {
				ids = append(ids, a.AgentID)
			}
			if after = list.Next; after == "" {
				return ids
			}
			if len(list.Agents) == 0 {
				t.Fatal("an empty page that is not the last")
			}
		}
		t.Fatal("no last page")
		return nil
	}
	for query, want := range map[string]int{
		"limit=10": 25, "limit=25": 25, "limit=1": 25, "limit=1000": 25, "": 25, "state=suspect&limit=2": 3, "state=available": 22, "state=draining": 0,
		"capability=common&limit=7": 25, "capability=common@~1.0": 9, "capability=common@~1.0&state=available": 8, "capability=own.agent-003": 1, "capability=nobody": 0,
	} {
		ids := all(query)
		if len(ids) != want || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("%s: %d agents, want %d: %v", query, len(ids), want, ids)
		}
	}
	for _, bad := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "state=happy", "capability=Not%20A%20Name", "capability="} {
		w.send("GET", "/v1/agents?"+bad, nil).problem(t, envelope.Malformed, 400)
	}
	if g := w.send("GET", "/v1/agents?state=draining", nil); !strings.Contains(string(g.body), `"agents":[]`) {
		t.Errorf("an empty list is %s", g.body)
	}
}

func TestOneAgent(t *testing.T) {
	w := start(t)
	w.populate(1)
	p := w.agent("linked", echo, "echo")
	var view agentView
	w.get("/v1/agents/agent-000", &view)
	c := view.Capabilities[0]
	if view.State != envelope.Suspect || view.Reason == "" || view.NodeID != w.id || c.Name != "common" || string(c.InputSchema) != `{"type":"object"}` || c.Description == "" {
		t.Errorf("%+v", view)
	}
	view = agentView{}
	w.get("/v1/agents/linked", &view)
	if view.PublicKey != p.key.Public() || view.Score != 10 || view.Load == nil || view.EndpointType != "link" || view.HeartbeatSec != 30 {
		t.Errorf("%+v", view)
	}
	w.send("GET", "/v1/agents/nobody", nil).problem(t, envelope.NoRoute, 404)
	w.send("GET", "/v1/agents/b%C3%A4d", nil).problem(t, envelope.Malformed, 400)
	if g := w.send("HEAD", "/v1/agents/linked", nil); g.status != 200 || len(g.body) != 0 {
		t.Errorf("HEAD: %d %s", g.status, g.body)
	}
}

// Nobody learns an agent's address from the directory.
func TestAddressesAreNotPublished(t *testing.T) {
	w := start(t)
	w.direct("listener", "http://192.0.2.7:9/rpc", nil)
	for _, path := range []string{"/v1/agents", "/v1/agents/listener", "/v1/capabilities"} {
		if g := w.send("GET", path, nil); strings.Contains(string(g.body), "192.0.2.7") {
			t.Errorf("%s: %s", path, g.body)
		}
	}
}

func TestCapabilities(t *testing.T) {
	w := start(t)
	w.populate(12)
	off := *w.seats.directory.Agent("agent-001")
	off.Offers = slices.Clone(off.Offers)
	off.Offers[0].Off = true
	w.seats.directory.Put(&off)
	var list capabilityList
	w.get("/v1/capabilities?limit=1", &list)
	if len(list.Capabilities) != 1 || list.Next != "common" {
		t.Fatalf("%+v", list)
	}
	c := list.Capabilities[0]
	if c.Agents != 12 || c.Available != 9 || !slices.Equal(c.Versions, []string{"1.2.0", "1.1.0", "1.0.0"}) || c.Description != "does common" {
		t.Errorf("%+v", c)
	}
	list = capabilityList{}
	w.get("/v1/capabilities?after=common", &list)
	if len(list.Capabilities) != 12 || list.Next != "" || list.Capabilities[0].Name != "own.agent-000" {
		t.Errorf("%d capabilities, next %q", len(list.Capabilities), list.Next)
	}
}

func TestNodes(t *testing.T) {
	w := start(t)
	var list nodeList
	w.get("/v1/nodes", &list)
	n := list.Nodes[0]
	if len(list.Nodes) != 1 || n.NodeID != w.id || n.PublicKey != w.key.Public() || n.Role != "router_and_registry" || n.Protocol != "3.0" || !slices.Equal(n.Addresses, []string{w.addr}) {
		t.Errorf("%+v", list)
	}
}

// direct publishes an agent that listens over HTTP.
func (w *world) direct(id, url string, change func(*envelope.Record)) *party {
	p := &party{world: w, id: id, key: envelope.GenerateKey()}
	d := p.descriptor("work")
	d.Endpoint = envelope.Endpoint{Type: envelope.HTTPEndpoint, URL: url, ProbeURL: url + "/probe"}
	if err := w.seats.publish(d); err != nil {
		w.Fatal(err)
	}
	if change != nil {
		r := *w.seats.directory.Agent(id)
		change(&r)
		w.seats.directory.Put(&r)
	}
	return p
}

func TestLookup(t *testing.T) {
	w := start(t)
	plain := w.direct("plain", "http://192.0.2.1:1/rpc", nil)
	w.direct("shy", "http://192.0.2.2:1/rpc", func(r *envelope.Record) { r.Descriptor.Endpoint.PreferProxy = true })
	w.direct("keyless", "http://192.0.2.3:1/rpc", func(r *envelope.Record) { r.VouchedBy = w.id })
	w.direct("elsewhere", "http://192.0.2.4:1/rpc", func(r *envelope.Record) { r.Node = "another-node" })
	w.direct("failing", "http://192.0.2.5:1/rpc", func(r *envelope.Record) { r.State = envelope.Suspect })
	w.agent("linked", echo, "work")
	caller := w.caller("caller")
	h := caller.header(envelope.Request)
	h.TargetCapability, h.TTLSec = "work@^1", 20
	request := caller.seal(h, "")
	g := w.post("/v1/lookup", request)
	var reply lookupReply
	unmarshal(t, g.body, &reply)
	if len(reply.Candidates) != 1 || reply.NotDirect != 4 {
		t.Fatalf("%s", g.body)
	}
	c := reply.Candidates[0]
	if c.Agent != "plain" || c.Endpoint.URL != "http://192.0.2.1:1/rpc" || c.PublicKey != plain.key.Public() || c.Capability != "work" || c.Version != "1.0.0" || c.Score != 10 || c.Factors.Distance != 1 {
		t.Errorf("%+v", c)
	}
	ticket, err := envelope.OpenTicket(c.Ticket, w.key.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := ticket.Admits(request, "plain"); err != nil || ticket.CallerKey != caller.key.Public() || ticket.Node != w.id {
		t.Errorf("%v %+v", err, ticket)
	}
	if left := time.Until(ticket.Expires.Time); left > 20*time.Second || left < 15*time.Second {
		t.Errorf("the ticket lives %v", left)
	}
	h = caller.header(envelope.Request)
	h.TargetCapability, h.TTLSec = "work", 3600
	unmarshal(t, w.post("/v1/lookup", caller.seal(h, "")).body, &reply)
	ticket, err = envelope.OpenTicket(reply.Candidates[0].Ticket, w.key.Public(), time.Now())
	if left := time.Until(ticket.Expires.Time); err != nil || left > 60*time.Second {
		t.Errorf("the ticket lives %v: %v", left, err)
	}
}

// A lookup is admitted like a call.
func TestLookupsThatAreRefused(t *testing.T) {
	w := start(t)
	w.direct("plain", "http://192.0.2.1:1/rpc", nil)
	caller := w.caller("caller")
	forger := &party{world: w, id: "caller", key: envelope.GenerateKey()}
	for _, path := range []string{"/v1/lookup", "/v1/explain"} {
		w.post(path, forger.request("work", "")).problem(t, envelope.BadSeal, 401)
		w.post(path, caller.request("nobody.has.it", "")).problem(t, envelope.NoRoute, 404)
		h := caller.header(envelope.Broadcast)
		h.TargetCapability = "work"
		w.post(path, caller.seal(h, "")).problem(t, envelope.Malformed, 400)
	}
	for _, limit := range []string{"0", "33", "x"} {
		w.post("/v1/lookup?limit="+limit, caller.request("work", "")).problem(t, envelope.Malformed, 400)
	}
	got := w.post("/v1/lookup", caller.request("work", ""))
	if got.status != 200 {
		t.Errorf("%s", got.body)
	}
}

func TestLookupLimit(t *testing.T) {
	w := start(t)
	for i := range 6 {
		w.direct(fmt.Sprint("a", i), "http://192.0.2.1:1/rpc", nil)
	}
	caller := w.caller("caller")
	for query, want := range map[string]int{"": 3, "?limit=1": 1, "?limit=32": 6} {
		var reply lookupReply
		unmarshal(t, w.post("/v1/lookup"+query, caller.request("work", "")).body, &reply)
		if len(reply.Candidates) != want || reply.NotDirect != 0 {
			t.Errorf("%s: %d", query, len(reply.Candidates))
		}
	}
}

func TestExplain(t *testing.T) {
	w := start(t)
	w.agent("linked", echo, "work")
	w.direct("failing", "http://192.0.2.5:1/rpc", func(r *envelope.Record) { r.State, r.Reason = envelope.Suspect, "3 failures in a row" })
	caller := w.caller("caller")
	var reply explainReply
	unmarshal(t, w.post("/v1/explain", caller.request("work", `{"a":1}`)).body, &reply)
	if reply.Mode != "best" || reply.Chosen != "linked" || len(reply.Candidates) != 2 {
		t.Fatalf("%+v", reply)
	}
	first, second := reply.Candidates[0], reply.Candidates[1]
	if first.Agent != "linked" || first.LeftOut != nil || first.Score != 10 || first.Version != "1.0.0" || first.Node != w.id {
		t.Errorf("%+v", first)
	}
	if second.State != envelope.Suspect || second.LeftOut == nil || !errors.Is(second.LeftOut.Code, envelope.NoRoute) || !strings.Contains(second.LeftOut.Text, "3 failures") {
		t.Errorf("%+v", second)
	}
}
