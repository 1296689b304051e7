package httpagent

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// patience bounds every wait for something that must happen.
const patience = 10 * time.Second

const (
	nodeID   = "node-1"
	agentID  = "stock"
	callerID = "orders"
)

var (
	nodeKey   = envelope.GenerateKey()
	agentKey  = envelope.GenerateKey()
	callerKey = envelope.GenerateKey()
)

// keys knows the caller only.
type keys struct{}

func (keys) Key(agent string) (envelope.PublicKey, bool) {
	return callerKey.Public(), agent == callerID
}

func newTestAgent(t *testing.T, url string, change func(*Config)) *Agent {
	t.Helper()
	cfg := Config{
		Agent: agentID, URL: url, Node: nodeID, NodeKey: nodeKey, Key: agentKey.Public(), Callers: keys{},
		MaxPayload: 64 << 10, PoolSize: 4,
	}
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func keyless(c *Config) { c.VouchKey = agentKey }

// ask is a request of the caller; change may be nil.
func ask(t testing.TB, payload string, change func(*envelope.Header)) *reach.Message {
	t.Helper()
	h := envelope.Header{
		MsgID: rand.Text(), TraceID: "trace-1", MsgType: envelope.Request, SourceAgent: callerID, TargetCapability: "stock.query@^1.0",
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}
	if change != nil {
		change(&h)
	}
	e, err := envelope.New(h, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	envelope.Sign(callerKey, e)
	return &reach.Message{Envelope: e}
}

// respond is the agent's sealed response document to e.
func respond(t testing.TB, to *envelope.Envelope, payload string) []byte {
	t.Helper()
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), TraceID: to.Header.TraceID, MsgType: envelope.Response, SourceAgent: agentID, TargetAgent: to.Header.SourceAgent,
		TargetCapability: to.Header.TargetCapability, InReplyTo: to.Header.MsgID, Status: envelope.StatusOK,
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}, []byte(payload))
	if err != nil {
		t.Error(err)
		return nil
	}
	envelope.Sign(agentKey, e)
	doc, err := e.AppendDocument(nil, nil)
	if err != nil {
		t.Error(err)
	}
	return doc
}

// serve starts a real server on loopback.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// listen starts a TCP server that gives each connection to h.
func listen(t *testing.T, h func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h(c)
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return "http://" + l.Addr().String() + "/rpc"
}

func call(t *testing.T, a *Agent, m *reach.Message) ([]*envelope.Envelope, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return callWithin(ctx, a, m)
}

func callWithin(ctx context.Context, a *Agent, m *reach.Message) (parts []*envelope.Envelope, err error) {
	err = a.Call(ctx, m, func(e *envelope.Envelope) error { parts = append(parts, e); return nil })
	return parts, err
}

func wantError(t *testing.T, err error, code envelope.Code, words ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%v does not say %q", err, w)
		}
	}
}
