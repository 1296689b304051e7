package scenario

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// ledger is an agent whose handler has a side effect: it counts, says that it runs, and holds until it is released.
type ledger struct {
	runs    atomic.Int32
	started chan struct{}
	release chan struct{}
}

func serveLedger(t *testing.T, n *node, id, capability string) *ledger {
	t.Helper()
	l := &ledger{started: make(chan struct{}, 1000), release: make(chan struct{})}
	a := newAgent(t, n, id, sdk.WithMaxConcurrent(100))
	a.Handle(offer(capability), func(context.Context, *sdk.Request) (any, error) {
		runs := l.runs.Add(1)
		l.started <- struct{}{}
		<-l.release
		return runs, nil
	})
	serve(t, a)
	return l
}

// refusedAgain reports whether a code says that the message was accepted before.
func refusedAgain(code string) bool { return code == "duplicate" || code == "conflict" }

// TestCase21SafeResend: a client that was killed after sending sends the same msg_id again, blindly. It runs once.
func TestCase21SafeResend(t *testing.T) {
	n := startNode(t, nil)
	l := serveLedger(t, n, "payer", "order.pay")
	resend := func() string {
		p := startRole(t, n, "caller", "order-client", "order.pay", `{"n": 1}`, "pay-1")
		p.exit(t)
		return p.says(t, "result ")
	}
	client := startRole(t, n, "caller", "order-client", "order.pay", `{"n": 1}`, "pay-1")
	within(t, l.started, "the handler")
	client.kill()
	if got := resend(); !strings.Contains(got, "duplicate") && !strings.Contains(got, "conflict") {
		t.Errorf("sent again while it runs: %s", got)
	}
	close(l.release)
	if got := resend(); !strings.Contains(got, "duplicate") && !strings.Contains(got, `"payload":"1"`) {
		t.Errorf("sent again after it ran: %s", got)
	}
	if got := l.runs.Load(); got != 1 {
		t.Errorf("it ran %d times", got)
	}
}

// TestCase21SafeResendPython is the same with the Python SDK on either side.
func TestCase21SafeResendPython(t *testing.T) {
	n := startNode(t, nil)
	agent := pythonAgent(t, n, "payer", "order.pay=hold")
	key := n.file("client.pem")
	fields := map[string]any{"target_capability": "order.pay", "payload": map[string]int{"n": 1}, "msg_id": "pay-1"}
	client := newPythonCaller(t, n, "order-client", "--key", key)
	client.begin(t, fields)
	agent.says(t, "running pay-1 1")
	client.kill()
	again := newPythonCaller(t, n, "order-client", "--key", key)
	if got := again.call(t, fields); got.OK || !refusedAgain(got.Code) || got.Hint == "" {
		t.Errorf("sent again while it runs: %+v", got)
	}
	agent.tell(t, "release")
	if got := again.call(t, fields); got.OK && !strings.Contains(string(got.Payload), `"runs": 1`) || !got.OK && !refusedAgain(got.Code) {
		t.Errorf("sent again after it ran: %+v", got)
	}
	if got := runs([]*process{agent}); got != 1 {
		t.Errorf("it ran %d times", got)
	}
}

// TestCase21SameBytesAtOnce: the same bytes over many connections at once, the first of which are cut right after sending.
func TestCase21SameBytesAtOnce(t *testing.T) {
	n := startNode(t, nil)
	l := serveLedger(t, n, "payer", "order.pay")
	v := registered(t, n, "client")
	doc := v.document(v.header(envelope.Request, "order.pay"), `{}`)
	c, err := net.Dial("tcp", n.addr)
	must(t, err)
	_, err = io.WriteString(c, rawPost("/v1/messages", doc))
	must(t, err)
	within(t, l.started, "the handler")
	must(t, c.Close())
	var all sync.WaitGroup
	var refused atomic.Int32
	for range 50 {
		all.Go(func() {
			if r, err := v.tryPost(t.Context(), "/v1/messages", doc); err == nil && r.status == http.StatusConflict {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	close(l.release)
	if got := l.runs.Load(); got != 1 || refused.Load() != 50 {
		t.Errorf("ran %d times; %d of 50 repeats were refused", got, refused.Load())
	}
}

// TestCase21SafeResendAcrossARestart: the node's death does not make it forget: what it may have accepted before is refused, not run again.
func TestCase21SafeResendAcrossARestart(t *testing.T) {
	n := startNode(t, nil)
	l := serveLedger(t, n, "payer", "order.pay")
	close(l.release)
	v := registered(t, n, "client")
	doc := v.document(v.header(envelope.Request, "order.pay"), `{}`)
	v.post("/v1/messages", doc).answer(t)
	n.kill()
	n.start(t)
	n.awaitState(t, "payer", "available")
	r := v.post("/v1/messages", doc)
	if p := r.problem(t); p.Code != envelope.Expired && p.Code != envelope.Duplicate || p.Hint == "" {
		t.Errorf("the same bytes after the restart: %d %s", r.status, r.body)
	}
	v.ask("order.pay", `{}`).answer(t)
	if got := l.runs.Load(); got != 2 {
		t.Errorf("two messages ran %d times", got)
	}
}

// TestCase21SameDeliveryTwice: an agent that is called direct refuses a repeat by itself; no node is asked.
func TestCase21SameDeliveryTwice(t *testing.T) {
	n := startNode(t, nil)
	a := newHTTPAgent(t, n, "go-http", nil)
	a.Handle(offer("go.echo"), echo)
	serve(t, a)
	capabilities := []string{"go.echo"}
	if havePython() {
		pythonAgent(t, n, "py-http", "py.echo=echo", "--http", strconv.Itoa(freePort(t)))
		capabilities = append(capabilities, "py.echo")
	}
	v := registered(t, n, "client")
	for _, capability := range capabilities {
		url, ticket := v.lookup(capability)
		doc, err := v.seal(v.header(envelope.Request, capability), `{"a":1}`).AppendDocument(nil, ticket)
		must(t, err)
		if r := postTo(t, url, doc); string(r.answer(t).Payload) != `{"a":1}` && string(r.answer(t).Payload) != `{"a": 1}` {
			t.Errorf("%s: %d %s", capability, r.status, r.body)
		}
		if r := postTo(t, url, doc); r.status != http.StatusConflict || r.problem(t).Code != envelope.Duplicate {
			t.Errorf("%s, the same delivery again: %d %s", capability, r.status, r.body)
		}
	}
}

// lookup is a direct candidate's address and the ticket for it.
func (v *voice) lookup(capability string) (url string, ticket []byte) {
	v.t.Helper()
	r := v.post("/v1/lookup", v.document(v.header(envelope.Request, capability), ""))
	var said struct {
		Candidates []struct {
			Endpoint envelope.Endpoint `json:"endpoint"`
			Ticket   jsontext.Value    `json:"ticket"`
		} `json:"candidates"`
	}
	must(v.t, json.Unmarshal(r.body, &said))
	if len(said.Candidates) != 1 {
		v.t.Fatalf("lookup: %d %s", r.status, r.body)
	}
	return said.Candidates[0].Endpoint.URL, said.Candidates[0].Ticket
}

func postTo(t *testing.T, url string, doc []byte) reply {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader(doc))
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return reply{resp.StatusCode, resp.Header, b}
}
