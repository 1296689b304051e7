package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/reach"
)

func TestOperation(t *testing.T) {
	notYet := errors.New("the directory is not read yet")
	w := start(t, func(w *world) {
		w.deps.Ready = func() error { return notYet }
		w.deps.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "agent_reach_links 0\n") })
	})
	var o operating
	w.get("/healthz", &o)
	g := w.send("GET", "/readyz", nil)
	if !o.OK || g.status != 503 || !strings.Contains(string(g.body), notYet.Error()) {
		t.Errorf("%+v %s", o, g.body)
	}
	notYet = nil
	w.server.deps.Ready = func() error { return nil }
	w.get("/readyz", &o)
	if g := w.send("GET", "/metrics", nil); string(g.body) != "agent_reach_links 0\n" {
		t.Errorf("%s", g.body)
	}
	if g := w.send("GET", "/v1/openapi.yaml", nil); !strings.HasPrefix(string(g.body), "openapi: 3.1") {
		t.Errorf("%s", g.body[:20])
	}
}

// A node that leaves says so before it goes, finishes what runs, and takes nothing new.
func TestDrain(t *testing.T) {
	w := start(t)
	asked, answer := make(chan struct{}, 2), make(chan struct{})
	slow := w.agent("slow", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		asked <- struct{}{}
		<-answer
		return send("1")
	}, "work")
	caller := w.caller("caller")
	linked, err := w.dial("linked", envelope.GenerateKey(), link.Agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	overHTTP, overLink := make(chan got, 1), make(chan error, 1)
	go func() { overHTTP <- w.post("/v1/messages", caller.request("work", "1")) }()
	go func() { _, err := linked.ask(linked.request("work", "1")); overLink <- err }()
	wait(t, asked, "the first call")
	wait(t, asked, "the second call")

	w.stop()
	wait(t, slow.link.Parting(), "goaway on the agent's link")
	wait(t, linked.link.Parting(), "goaway on the caller's link")
	if g := w.send("GET", "/readyz", nil); g.status != 503 || !strings.Contains(string(g.body), "shutting down") {
		t.Errorf("readyz: %d %s", g.status, g.body)
	}
	if g := w.send("GET", "/healthz", nil); g.status != 200 {
		t.Errorf("healthz: %d", g.status)
	}
	w.post("/v1/messages", caller.request("work", "1")).problem(t, envelope.Unreachable, 502)
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	w.send("GET", "/v1/link", nil, upgrade...).problem(t, envelope.Unreachable, 502)
	select {
	case <-w.stopped:
		t.Fatal("Run returned while calls ran")
	default:
	}
	close(answer)
	wait(t, overHTTP, "the answer over HTTP").envelope(t)
	if err := wait(t, overLink, "the answer over the link"); err != nil {
		t.Error(err)
	}
	w.ended()
}

// ended waits for Run to return and holds it to having left nothing behind.
func (w *world) ended() {
	w.Helper()
	err := wait(w, w.stopped, "Run to return")
	w.stopped <- err // for the clean-up
	if err != nil {
		w.Error(err)
	}
	if left := ownGoroutines(); left != "" {
		w.Errorf("left running:\n%s", left)
	}
	if c, err := net.Dial("tcp", w.addr); err == nil {
		c.Close()
		w.Error("still listening")
	}
}

// ownGoroutines are the stacks in which this package, or a server's connection, is at work outside a test.
func ownGoroutines() string {
	buf := make([]byte, 1<<20)
	var own []string
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		server := strings.Contains(g, "ingress.(*Server)") || strings.Contains(g, "http.(*conn).serve") || strings.Contains(g, "ingress.(*listener)")
		if server && !strings.Contains(g, "testing.tRunner") {
			own = append(own, g)
		}
	}
	return strings.Join(own, "\n\n")
}

func TestDrainGivesUp(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.DrainTimeout = 50 * time.Millisecond })
	asked := make(chan struct{}, 1)
	w.agent("stuck", func(ctx context.Context, _ *envelope.Envelope, _ func(string) error) error {
		asked <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}, "work")
	caller := w.caller("caller")
	answered := make(chan got, 1)
	go func() { answered <- w.post("/v1/messages", caller.request("work", "1")) }()
	wait(t, asked, "the call")
	w.stop()
	wait(t, answered, "the answer").problem(t, envelope.Timeout, 504)
	w.ended()
	if !strings.Contains(w.log.String(), "drain timeout") {
		t.Error("the log does not say that calls were cut")
	}
}

func TestRunWithoutCallsEndsAtOnce(t *testing.T) {
	w := start(t)
	w.agent("idle", echo, "echo")
	w.send("GET", "/healthz", nil) // leaves an idle connection
	silent, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	w.stop()
	w.ended()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestListenerThatFails(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := w.server.Run(t.Context(), l); err == nil {
		t.Error("Run returned no error")
	}
}

func TestTooManyConnections(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.MaxConnections = 2 })
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	g := raw(t, w, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	p := g.problem(t, envelope.Overloaded, 429)
	if g.header.Get("Retry-After") != "1" || !strings.Contains(p.Detail, "2 connections") {
		t.Errorf("%v %s", g.header, g.body)
	}
	for _, c := range open {
		c.Close()
	}
	await(t, "room", func() bool {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(soon))
		io.WriteString(c, "GET /healthz HTTP/1.0\r\n\r\n")
		b, _ := io.ReadAll(c)
		return strings.Contains(string(b), "200 OK")
	})
}

func TestTooManyCalls(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.MaxCalls = 1 })
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	w.agent("slow", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		asked <- struct{}{}
		<-answer
		return send("1")
	}, "work")
	caller := w.caller("caller")
	first := make(chan got, 1)
	go func() { first <- w.post("/v1/messages", caller.request("work", "1")) }()
	wait(t, asked, "the first call")
	w.post("/v1/messages", caller.request("work", "1")).problem(t, envelope.Overloaded, 429)
	close(answer)
	wait(t, first, "the first answer").envelope(t)
	w.post("/v1/messages", caller.request("work", "1")).envelope(t)
}

func TestGate(t *testing.T) {
	g := newGate()
	if first, second := g.enter(), g.enter(); !first || !second {
		t.Fatal("an open gate lets nobody in")
	}
	empty := g.shut()
	if g.enter() {
		t.Fatal("a shut gate lets someone in")
	}
	g.leave()
	select {
	case <-empty:
		t.Fatal("empty with one inside")
	default:
	}
	g.leave()
	wait(t, empty, "the gate to be empty")
	if g.enter() {
		t.Fatal("a shut gate lets someone in")
	}
	unused := newGate()
	wait(t, unused.shut(), "an unused gate to be empty")
}

// Arrivals are told once each: readable ones with the message, others with the error.
func TestArrivalsAreObserved(t *testing.T) {
	seen := make(events, 100)
	w := start(t, func(w *world) { w.deps.Observer = seen })
	caller := w.caller("caller")
	w.post("/v1/messages", caller.request("nobody.has.it", "1"))
	w.send("POST", "/v1/messages", []byte("x"))
	close(seen)
	var kinds []string
	for e := range seen {
		switch {
		case e.Step != envelope.StepDecode:
			t.Errorf("step %s", e.Step)
		case e.Err != nil:
			kinds = append(kinds, string(envelope.AsError(e.Err).Code))
		case e.Message.HopsLeft < 2 || e.Message.Attempts != 0 || e.Message.Deadline.IsZero():
			t.Errorf("%+v", e.Message)
		default:
			kinds = append(kinds, string(e.Message.Header.MsgType))
		}
	}
	if got := strings.Join(kinds, " "); got != "register request malformed" {
		t.Errorf("%s", got)
	}
}

type events chan reach.Event

func (e events) Observe(one reach.Event) { e <- one }

// Case 26: under more load than the node takes, every message is either answered or refused with a code, and what was refused as not run did
// not run.
func TestNothingIsDroppedInSilence(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.MaxCalls = 8 })
	var ran atomic.Int64
	var once sync.Once
	full := make(chan struct{}) // closed by the first refusal
	w.agent("worker", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		<-full
		ran.Add(1)
		return send("1")
	}, "work")
	const callers, each = 32, 20
	var delivered, refused atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		caller := w.caller(fmt.Sprint("caller", i))
		all.Go(func() {
			for range each {
				g := w.post("/v1/messages", caller.request("work", "1"))
				if g.status == http.StatusOK {
					delivered.Add(1)
					continue
				}
				if !strings.Contains(string(g.body), `"code":"overloaded"`) {
					t.Errorf("%d %s", g.status, g.body)
				}
				refused.Add(1)
				once.Do(func() { close(full) })
			}
		})
	}
	all.Wait()
	if sum := delivered.Load() + refused.Load(); sum != callers*each || ran.Load() != delivered.Load() {
		t.Errorf("%d sent, %d delivered, %d refused, %d run", callers*each, delivered.Load(), refused.Load(), ran.Load())
	}
}
