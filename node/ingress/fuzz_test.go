package ingress

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// FuzzMessages: whatever is posted, to whichever call takes messages, there is an answer, and it is a document, lines, or a problem whose
// status follows from its code.
func FuzzMessages(f *testing.F) {
	w := newWorld(f)
	p := &party{world: w, id: "caller", key: envelope.GenerateKey()}
	if err := w.seats.pin(p.id, p.key.Public()); err != nil {
		f.Fatal(err)
	}
	for _, kind := range []envelope.MsgType{envelope.Request, envelope.Broadcast, envelope.Heartbeat, envelope.Register, envelope.Unregister, envelope.Cancel, envelope.Response} {
		h := p.header(kind)
		h.TargetCapability, h.InReplyTo = "echo", "x"
		if kind == envelope.Response {
			h.Status = envelope.StatusOK
		}
		for path := range uint8(6) {
			f.Add(path, document(f, p.seal(h, `{"agent_id":"caller","capabilities":[]}`)), "application/json", "1000")
		}
	}
	files, err := filepath.Glob("../../test/vectors/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(0), b, "", "")
	}
	f.Fuzz(func(t *testing.T, path uint8, body []byte, contentType, timeout string) {
		calls := []struct{ method, path string }{
			{"POST", "/v1/messages"}, {"POST", "/v1/agents"}, {"POST", "/v1/lookup"}, {"POST", "/v1/explain"},
			{"PUT", "/v1/agents/caller/heartbeat"}, {"DELETE", "/v1/agents/caller"},
		}
		call := calls[int(path)%len(calls)]
		r := httptest.NewRequest(call.method, call.path, bytes.NewReader(body))
		for name, value := range map[string]string{"Content-Type": contentType, timeoutHeader: timeout} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		out := httptest.NewRecorder()
		w.server.handler.ServeHTTP(out, r)
		checkAnswer(t, got{out.Code, out.Header(), out.Body.Bytes()})
	})
}

func checkAnswer(t *testing.T, g got) {
	switch kind := g.header.Get("Content-Type"); kind {
	case problemType:
		var p problem
		unmarshal(t, g.body, &p)
		if p.Code == envelope.Internal || p.Title == "" || p.Status != g.status || g.status < 400 {
			t.Errorf("%s", g.body)
		}
		if own := p.Code.HTTPStatus(); own != g.status && p.Step != envelope.StepAnswer {
			t.Errorf("status %d of %s", g.status, p.Code)
		}
	case jsonType:
		if g.status != http.StatusOK || !jsontext.Value(g.body).IsValid() {
			t.Errorf("%d %s", g.status, g.body)
		}
	case linesType:
		for line := range strings.Lines(string(g.body)) {
			if !jsontext.Value(line).IsValid() {
				t.Errorf("%s", line)
			}
		}
	default:
		t.Errorf("%d %s %s", g.status, kind, g.body)
	}
}
