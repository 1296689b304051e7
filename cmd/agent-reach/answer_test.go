package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// liar is a node that answers calls as lie says, and knows one agent, "seller".
type liar struct {
	t    *testing.T
	key  envelope.PrivateKey
	sold envelope.PrivateKey // seller's key
	lie  func(w http.ResponseWriter, asked *envelope.Envelope)
}

func (n *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/nodes":
		fmt.Fprintf(w, `{"nodes": [{"node_id": %q, "public_key": %q}]}`, n.key.Public().Fingerprint(), n.key.Public())
	case "/v1/agents/seller":
		fmt.Fprintf(w, `{"agent_id": "seller", "public_key": %q}`, n.sold.Public())
	case "/v1/messages":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			n.t.Error(err)
		}
		asked, _, err := envelope.Decode(body, 1<<20)
		if err != nil {
			n.t.Error(err)
			return
		}
		n.lie(w, asked)
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"code": "no_route", "step": "resolve", "detail": "no such agent"}`)
	}
}

// reply is what an honest seller would answer, after change.
func (n *liar) reply(asked *envelope.Envelope, key envelope.PrivateKey, change func(*envelope.Header)) string {
	h := envelope.Header{
		MsgID: "r1", MsgType: envelope.Response, SourceAgent: "seller", TargetAgent: asked.Header.SourceAgent, InReplyTo: asked.Header.MsgID,
		Status: envelope.StatusOK, Timestamp: envelope.Timestamp{Time: time.Now().UTC()},
	}
	change(&h)
	e, err := envelope.New(h, []byte(`{"price": 1}`))
	if err != nil {
		n.t.Fatal(err)
	}
	envelope.Sign(key, e)
	doc, err := e.AppendDocument(nil, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(doc)
}

func same(*envelope.Header) {}

func TestAnswersThatCannotBeBelieved(t *testing.T) {
	n := &liar{t: t, key: envelope.GenerateKey(), sold: envelope.GenerateKey()}
	server := httptest.NewServer(n)
	defer server.Close()
	key := filepath.Join(t.TempDir(), "k.pem")
	if err := envelope.CreateKey(key, envelope.GenerateKey(), nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		answer func(asked *envelope.Envelope) string
		exit   int
		out    string // on either stream
	}{
		{"an honest one", func(a *envelope.Envelope) string { return n.reply(a, n.sold, same) }, exitOK, `"price": 1`},
		{"another's key", func(a *envelope.Envelope) string { return n.reply(a, envelope.GenerateKey(), same) }, exitNoAnswer, "bad_seal at answer: seal does not prove that seller said this"},
		{"a changed price", func(a *envelope.Envelope) string {
			return strings.Replace(n.reply(a, n.sold, same), `"price": 1`, `"price": 9`, 1)
		}, exitNoAnswer, "bad_seal"},
		{"to another message", func(a *envelope.Envelope) string {
			return n.reply(a, n.sold, func(h *envelope.Header) { h.InReplyTo = "other" })
		}, exitNoAnswer, "the answer of seller is to another message"},
		{"to another caller", func(a *envelope.Envelope) string {
			return n.reply(a, n.sold, func(h *envelope.Header) { h.TargetAgent = "other" })
		}, exitNoAnswer, "to another message"},
		{"from another agent", func(a *envelope.Envelope) string {
			return n.reply(a, n.key, func(h *envelope.Header) { h.SourceAgent = n.key.Public().Fingerprint() })
		}, exitNoAnswer, "answers for seller"},
		{"no envelope", func(*envelope.Envelope) string { return `{"price": 1}` }, exitNoAnswer, "the answer is no envelope"},
		{"no JSON", func(*envelope.Envelope) string { return `<html>` }, exitNoAnswer, "the answer breaks off"},
		{"nothing", func(*envelope.Envelope) string { return "" }, exitNoAnswer, "the answer breaks off"},
		{"a part, then an error", func(a *envelope.Envelope) string {
			return n.reply(a, n.sold, same) + "\n" + `{"error": {"code": "timeout", "step": "deliver", "text": "too slow"}}` + "\n"
		}, exitNoAnswer, "timeout at deliver: too slow"},
		{"a part, then half of one", func(a *envelope.Envelope) string {
			return n.reply(a, n.sold, same) + "\n" + n.reply(a, n.sold, same)[:100]
		}, exitNoAnswer, "the answer breaks off"},
		{"an error whose text acts on the terminal", func(a *envelope.Envelope) string {
			return n.reply(a, n.sold, func(h *envelope.Header) {
				h.Status, h.Error = envelope.StatusError, []byte(`{"code":"x\u001b[2J","text":"\u202e"}`)
			})
		}, exitAgent, `agent_error at answer: seller: x\u001b[2J: \u202e`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n.lie = func(w http.ResponseWriter, asked *envelope.Envelope) { io.WriteString(w, tt.answer(asked)) }
			var out, errs bytes.Buffer
			exit := run([]string{"call", "--agent", "seller", "{}", "--node", server.URL, "--key", key}, nil, &out, &errs)
			if exit != tt.exit || !strings.Contains(out.String()+errs.String(), tt.out) {
				t.Errorf("exit %d, want %d\n%s%s\nwant %s", exit, tt.exit, &out, &errs, tt.out)
			}
			if strings.ContainsFunc(out.String()+errs.String(), acts) {
				t.Errorf("it would act on the terminal: %q %q", &out, &errs)
			}
		})
	}
}

func TestANodeThatIsSilentOrStrange(t *testing.T) {
	silent := make(chan struct{})
	defer close(silent)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, tt := range []struct {
		name, timeout string
		lie           func(w http.ResponseWriter, asked *envelope.Envelope)
		exit          int
		want          string
	}{
		{"silence", "10ms", func(http.ResponseWriter, *envelope.Envelope) { <-silent }, exitNoAnswer, "timeout at call: "},
		{"a redirect", "20s", func(w http.ResponseWriter, _ *envelope.Envelope) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, exitNoNode, "does not answer as a node: HTTP 307"},
		{"another program", "20s", func(w http.ResponseWriter, _ *envelope.Envelope) { http.Error(w, "nginx", http.StatusBadGateway) }, exitNoNode, "does not answer as a node: HTTP 502"},
		{"a refusal", "20s", func(w http.ResponseWriter, _ *envelope.Envelope) {
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, `{"type": "x", "title": "y", "status": 429, "code": "overloaded", "step": "queue", "detail": "256 wait", "retry_after_ms": 1500}`)
		}, exitNoAnswer, "error: overloaded at queue: 256 wait\n  try again in 1.5s\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(&liar{t: t, key: envelope.GenerateKey(), lie: tt.lie})
			t.Cleanup(server.CloseClientConnections)
			var out, errs bytes.Buffer
			exit := run([]string{"call", "a.b", "--timeout", tt.timeout, "--node", server.URL}, nil, &out, &errs)
			if exit != tt.exit || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("exit %d, want %d\n%s%s\nwant %s", exit, tt.exit, &out, &errs, tt.want)
			}
		})
	}
}
