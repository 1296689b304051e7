package reach_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

const skuSchema = `{"type":"object","properties":{"sku":{"type":"string"}},"required":["sku"]}`

func fails(code envelope.Code) func(context.Context, *reach.Message, *agent, reach.Sink) error {
	return func(context.Context, *reach.Message, *agent, reach.Sink) error {
		return envelope.Errorf(code, envelope.StepDeliver, "as the test wants")
	}
}

func wantCode(t *testing.T, err error, code envelope.Code, words ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want code %s", err, code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

func TestReachDeliversByCapabilityAndByAgent(t *testing.T) {
	w := newWorld(t, usual())
	a := w.attach("stock-1", "stock.query", "1.0.0", skuSchema)
	parts, err := w.reach(context.Background(), w.request("stock.query", `{"sku":"SKU-1"}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 1 || string(parts[0].Payload) != `{"sku":"SKU-1"}` {
		t.Fatalf("parts: %v", parts)
	}
	if err := parts[0].Verify(a.key.Public()); err != nil {
		t.Error(err)
	}
	toAgent := func(h *envelope.Header) { h.TargetCapability, h.TargetAgent = "", "stock-1" }
	if who, err := w.call(w.request("", `{"sku":"SKU-1"}`, toAgent)); err != nil || who != "stock-1" {
		t.Errorf("by id alone: %q, %v", who, err)
	}
	ev := w.last(envelope.StepCall)
	if ev.Agent != "stock-1" || ev.Node != here || ev.Err != nil || !strings.HasPrefix(ev.Reason, "target_agent 1 of 1") {
		t.Errorf("event %+v", ev)
	}
}

func TestBadPayloadNeverDisturbsTheAgent(t *testing.T) {
	w := newWorld(t, usual())
	a := w.attach("stock-1", "stock.query", "1.0.0", skuSchema)
	_, err := w.call(w.request("stock.query", `{"sku":7}`, nil))
	wantCode(t, err, envelope.SchemaError, "/sku")
	if n := a.runs.Load(); n != 0 {
		t.Errorf("the agent ran %d times", n)
	}
}

func TestAnswersMixedUpAreRefused(t *testing.T) {
	for name, change := range map[string]func(*envelope.Header){
		"another request's": func(h *envelope.Header) { h.InReplyTo = "m-other" },
		"another source":    func(h *envelope.Header) { h.SourceAgent = "stock-2" },
		"another caller":    func(h *envelope.Header) { h.TargetAgent = "somebody" },
		"another trace":     func(h *envelope.Header) { h.TraceID = "trace-2" },
		"not a response":    func(h *envelope.Header) { h.MsgType = envelope.Request },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, usual())
			a := w.attach("stock-1", "stock.query", "1.0.0", "true")
			a.act = func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
				return sink(a.reply(m, nil, change))
			}
			_, err := w.call(w.request("stock.query", `{}`, nil))
			wantCode(t, err, envelope.Malformed, "stock-1 answered with")
			if envelope.AsError(err).Step != envelope.StepAnswer {
				t.Errorf("step %s", envelope.AsError(err).Step)
			}
		})
	}
}

func TestAnswerSealedByAnotherKeyIsRefused(t *testing.T) {
	w := newWorld(t, usual())
	a := w.attach("stock-1", "stock.query", "1.0.0", "true")
	a.key = envelope.GenerateKey()
	_, err := w.call(w.request("stock.query", `{}`, nil))
	wantCode(t, err, envelope.BadSeal, "the answer of stock-1")
}

func TestNoAnswerAtAllIsAnError(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("stock-1", "stock.query", "1.0.0", "true").act = func(context.Context, *reach.Message, *agent, reach.Sink) error { return nil }
	_, err := w.call(w.request("stock.query", `{}`, nil))
	wantCode(t, err, envelope.Malformed, "without an answer")
}

// Case 25: zero bytes, {}, null and "" are answers like any other.
func TestEmptyAnswersArrive(t *testing.T) {
	for _, payload := range []string{"", "{}", "null", `""`} {
		w := newWorld(t, usual())
		w.attach("stock-1", "stock.query", "1.0.0", "true").act = func(_ context.Context, m *reach.Message, a *agent, sink reach.Sink) error {
			return sink(a.reply(m, []byte(payload), nil))
		}
		parts, err := w.reach(context.Background(), w.request("stock.query", `{}`, nil))
		if err != nil || len(parts) != 1 || string(parts[0].Payload) != payload {
			t.Errorf("%q: %v, %v", payload, parts, err)
		}
	}
}

func TestVersionRanges(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("old", "contract.summarize", "1.1.0", "true")
	w.attach("new", "contract.summarize", "1.4.2", "true")
	w.attach("next", "contract.summarize", "2.0.0", "true")
	for target, want := range map[string]string{
		"contract.summarize@^1.2": "new", "contract.summarize@1.1.0": "old", "contract.summarize@>=2": "next", "contract.summarize@2.x": "next",
	} {
		if who, err := w.call(w.request(target, `{}`, nil)); err != nil || who != want {
			t.Errorf("%s: %q, %v; want %s", target, who, err, want)
		}
	}
	_, err := w.call(w.request("contract.summarize@^3", `{}`, nil))
	wantCode(t, err, envelope.NoRoute, "offers version 1.1.0, outside contract.summarize@^3")
}

func TestNoRouteSaysWhy(t *testing.T) {
	w := newWorld(t, usual())
	_, err := w.call(w.request("nobody.has", `{}`, nil))
	wantCode(t, err, envelope.NoRoute, `no agent declares "nobody.has"`)
	w.attach("stock-1", "stock.query", "1.0.0", "true", state(envelope.Pending))
	_, err = w.call(w.request("stock.query", `{}`, nil))
	wantCode(t, err, envelope.NoRoute, "stock-1 is pending")
	_, err = w.call(w.request("", `{}`, func(h *envelope.Header) { h.TargetCapability, h.TargetAgent = "other.thing", "stock-1" }))
	wantCode(t, err, envelope.NoRoute, `does not declare "other.thing"`, "stock.query")
}

func TestSuspectAgentsAreTheLastResort(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("failing", "stock.query", "1.0.0", "true", state(envelope.Suspect))
	if who, err := w.call(w.request("stock.query", `{}`, nil)); err != nil || who != "failing" {
		t.Fatalf("alone: %q, %v", who, err)
	}
	w.attach("healthy", "stock.query", "1.0.0", "true")
	for range 50 {
		if who, err := w.call(w.request("stock.query", `{}`, nil)); err != nil || who != "healthy" {
			t.Fatalf("with a healthy one: %q, %v", who, err)
		}
	}
}

func TestPermissions(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("stock-1", "stock.query", "1.0.0", "true")
	w.attach("stock-2", "stock.query", "1.0.0", "true")
	w.perms.Store(&envelope.Permissions{Source: "permissions.yaml", Rules: []envelope.Rule{
		{Caller: "caller", Capability: "stock.*", Agent: "stock-2", Allow: true},
	}})
	for range 20 {
		if who, err := w.call(w.request("stock.query", `{}`, nil)); err != nil || who != "stock-2" {
			t.Fatalf("%q, %v", who, err)
		}
	}
	_, err := w.call(w.request("stock.query", `{}`, func(h *envelope.Header) { h.TargetAgent = "stock-1" }))
	wantCode(t, err, envelope.Forbidden, "caller may not call \"stock.query\" on stock-1", "permissions.yaml")
	_, err = w.call(w.request("", `{}`, func(h *envelope.Header) { h.TargetCapability, h.TargetAgent = "", "stock-1" }))
	wantCode(t, err, envelope.Forbidden, "stock-1")
	_, err = w.call(w.request("money.move", `{}`, nil))
	wantCode(t, err, envelope.Forbidden, "money.move")
}

func TestWithoutATableOnlyThisMachineMayCall(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("stock-1", "stock.query", "1.0.0", "true")
	m := w.request("stock.query", `{}`, nil)
	m.FromLoopback = false
	_, err := w.call(m)
	wantCode(t, err, envelope.Forbidden, "permissions_file")
}

func TestWhatIsNotServedIsSaid(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("stock-1", "stock.query", "1.0.0", "true")
	_, err := w.call(w.request("stock.query", `{}`, func(h *envelope.Header) { h.Persistent = true }))
	wantCode(t, err, envelope.Unsupported, "persistent")
	_, err = w.call(w.request("stock.query", `{}`, func(h *envelope.Header) { h.Namespace = "tenant" }))
	wantCode(t, err, envelope.Unsupported, "namespace")
}

func TestUnknownSourceAndWrongKey(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("stock-1", "stock.query", "1.0.0", "true")
	_, err := w.call(w.request("stock.query", `{}`, func(h *envelope.Header) { h.SourceAgent = "stranger" }))
	wantCode(t, err, envelope.UnknownAgent, "stranger", "register")
	w.caller = envelope.GenerateKey()
	_, err = w.call(w.request("stock.query", `{}`, nil))
	wantCode(t, err, envelope.BadSeal)
}

// Case 36: two minutes are tolerated; beyond, the error speaks of the clock.
func TestSkewedClocks(t *testing.T) {
	w := newWorld(t, usual())
	w.attach("stock-1", "stock.query", "1.0.0", "true")
	shifted := func(d time.Duration) func(*envelope.Header) {
		return func(h *envelope.Header) { h.Timestamp.Time = h.Timestamp.Add(d) }
	}
	for _, d := range []time.Duration{-100 * time.Second, 110 * time.Second} {
		if _, err := w.call(w.request("stock.query", `{}`, shifted(d))); err != nil {
			t.Errorf("skew %v: %v", d, err)
		}
	}
	_, err := w.call(w.request("stock.query", `{}`, shifted(3*time.Minute)))
	wantCode(t, err, envelope.ClockSkew, "clock", "NTP")
	_, err = w.call(w.request("stock.query", `{}`, shifted(-10*time.Minute)))
	wantCode(t, err, envelope.Expired, "NTP")
}
