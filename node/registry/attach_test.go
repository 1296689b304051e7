package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// operator speaks with the node's key.
func (n *node) operator() *agent { return &agent{n: n, id: n.Node, key: n.key} }

func plain(id, url, extra string) string {
	return `{"agent_id":"` + id + `","capabilities":[{"name":"echo","version":"1.0.0"}],"endpoint":{"type":"http","url":"` + url + `"}` + extra + `}`
}

func (n *node) attachFile(payload string) (standing, error) {
	n.t.Helper()
	o := n.operator()
	return o.tell(o.says(envelope.Register, payload, nil))
}

func echo(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		io.Copy(w, r.Body)
	}
}

func TestAttach(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	dir, key := t.TempDir(), envelope.GenerateKey()
	n := newNodeIn(t, dir, key, nil)
	st, err := n.attachFile(plain("echo-1", s.URL, ""))
	if err != nil || st.State != envelope.Available || st.AgentID != "echo-1" {
		t.Fatal(st, err)
	}
	check := func(n *node) envelope.PublicKey {
		t.Helper()
		caller := newAgent(n, "orders-"+strings.ToLower(rand.Text()))
		caller.mustRegister("")
		if got, err := caller.call(t.Context(), "echo", `{"a":1}`); err != nil || string(got) != `{"a":1}` {
			t.Fatal(string(got), err)
		}
		rec := n.Directory.Agent("echo-1")
		if rec.VouchedBy != n.Node || rec.Distance != 1 {
			t.Fatalf("%+v", rec)
		}
		return rec.Key
	}
	before := check(n)

	_, err = newAgent(n, "echo-1").register("")
	wantError(t, err, envelope.Conflict, before.Fingerprint())
	stranger := newAgent(n, "stranger")
	stranger.id = n.Node
	_, err = stranger.tell(stranger.says(envelope.Register, plain("echo-2", s.URL, ""), nil))
	wantError(t, err, envelope.BadSeal)

	n.halt()
	n = newNodeIn(t, dir, key, nil)
	n.awaitState("echo-1", envelope.Available)
	if check(n) != before {
		t.Fatal("the agent has another key after a restart")
	}
	if st, err := n.attachFile(plain("echo-1", s.URL, `,"display_name":"Echo"`)); err != nil || st.State != envelope.Available {
		t.Fatal("attached again", st, err)
	}
	if rec := n.Directory.Agent("echo-1"); rec.Descriptor.DisplayName != "Echo" || rec.Key != before {
		t.Fatalf("%+v", rec)
	}

	o := n.operator()
	leave := func(id string) (standing, error) {
		return o.tell(o.says(envelope.Unregister, `{}`, func(h *envelope.Header) { h.TargetAgent = id }))
	}
	keyed := newAgent(n, "keyed")
	keyed.mustRegister("")
	for _, id := range []string{"keyed", "nobody", ""} {
		_, err := leave(id)
		wantError(t, err, envelope.UnknownAgent)
	}
	if st, err := leave("echo-1"); err != nil || st.State != envelope.Removed {
		t.Fatal(st, err)
	}
	if files, err := os.ReadDir(filepath.Join(dir, "attached")); err != nil || len(files) != 0 {
		t.Fatal(files, err)
	}
}

func TestAttachRefusals(t *testing.T) {
	n := newNode(t, nil)
	keyed := newAgent(n, "keyed")
	keyed.mustRegister("")
	for payload, want := range map[string]struct {
		code envelope.Code
		says string
	}{
		plain("keyed", "http://127.0.0.1:1/", ""):                                            {envelope.Conflict, keyed.key.Public().Fingerprint()},
		plain("a", "http://127.0.0.1:1/", `,"public_key":"`+keyed.key.Public().String()+`"`): {envelope.Malformed, "registers itself"},
		plain("a", "http://127.0.0.1:1/", `,"heartbeat_interval_sec":46`):                    {envelope.Malformed, "92"},
		`{"agent_id":"a","capabilities":[]}`:                                                 {envelope.Unsupported, "http"},
		plain(n.Node, "http://127.0.0.1:1/", ""):                                             {envelope.Conflict, "id of this node"},
		plain("../a", "http://127.0.0.1:1/", ""):                                             {envelope.Malformed, "'.'"},
	} {
		_, err := n.attachFile(payload)
		wantError(t, err, want.code, want.says)
	}
	if _, err := os.Stat(n.cfg.AttachedDir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a refused agent left files behind", err)
	}
}

// An attached agent that is down at first, or goes down, is used again as soon as it answers; no lease ends it.
func TestAttachedAgentComesAndGoes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	n := newNode(t, func(c *Config) { c.HeartbeatTimeout, c.CapabilityTTL = 2*time.Second, 3*time.Second })
	st, err := n.attachFile(plain("echo-1", "http://"+addr, `,"heartbeat_interval_sec":1`))
	if err != nil || st.State != envelope.Pending || !strings.Contains(st.Reason, "refused") {
		t.Fatal(st, err)
	}
	start := func() *http.Server {
		var l net.Listener
		eventually(t, "the port is free", func() bool { l, err = net.Listen("tcp", addr); return err == nil })
		s := &http.Server{Handler: http.HandlerFunc(echo)}
		go s.Serve(l)
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := start()
	n.awaitState("echo-1", envelope.Available)
	s.Close()
	n.awaitState("echo-1", envelope.Suspect)
	n.awaitState("echo-1", envelope.Unavailable)
	s = start()
	n.awaitState("echo-1", envelope.Available)
	s.Close()
}

func TestBadAttachedFilesAreSkipped(t *testing.T) {
	dir := t.TempDir()
	attached := filepath.Join(dir, "attached")
	if err := os.MkdirAll(attached, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"good.json": plain("good", "http://127.0.0.1:1/", ""), "cut.json": `{"agent_id":`, "other.json": plain("good", "http://127.0.0.1:1/", ""),
		".good.json.123": "{", "README": "",
	} {
		if err := os.WriteFile(filepath.Join(attached, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := newNodeIn(t, dir, envelope.GenerateKey(), nil)
	if views := n.Views(); len(views) != 1 || views[0].Agent != "good" {
		t.Fatal(views)
	}
	for _, name := range []string{"cut.json", "other.json"} {
		if !strings.Contains(n.log.String(), name) {
			t.Errorf("%s was skipped in silence", name)
		}
	}
}

// An agent with a key that listens on HTTP is probed with a heartbeat of the node, and called with a ticket.
func TestHTTPAgentWithKey(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		e, doc, err := envelope.Decode(b, 1<<20)
		var ticket envelope.Ticket
		if err == nil {
			ticket, err = envelope.OpenTicket(doc, n.key.Public(), time.Now())
		}
		if err == nil {
			err = errors.Join(ticket.Admits(e, "stock"), e.Verify(ticket.CallerKey))
		}
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := respond(t, a.id, a.key, e, []byte(`"http"`)).AppendDocument(nil, nil)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}))
	defer s.Close()
	a.mustRegister(`,"endpoint":{"type":"http","url":"`+s.URL+`"}`, "stock.query")
	n.awaitState("stock", envelope.Available)
	got, err := newCaller(n).call(context.Background(), "stock.query", "{}")
	if err != nil || string(got) != `"http"` {
		t.Fatal(string(got), err)
	}
}
