package ingress

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

// BenchmarkHTTPCall is a whole call: client, node, linked agent and back.
func BenchmarkHTTPCall(b *testing.B) {
	w := start(b)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	b.ReportAllocs()
	for b.Loop() {
		w.post("/v1/messages", caller.request("echo", `{"a":1}`))
	}
}

// BenchmarkLinkCall is the same over the caller's link.
func BenchmarkLinkCall(b *testing.B) {
	w := start(b)
	w.agent("echoer", echo, "echo")
	caller, err := w.dial("caller", envelope.GenerateKey(), link.Agent, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := caller.ask(caller.request("echo", `{"a":1}`)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefusal is what a bad message costs the node, without the network.
func BenchmarkRefusal(b *testing.B) {
	w := newWorld(b)
	body := []byte(`{"envelope":{"version":"3.0"}}`)
	b.ReportAllocs()
	for b.Loop() {
		out := httptest.NewRecorder()
		w.server.handler.ServeHTTP(out, httptest.NewRequest("POST", "/v1/messages", bytes.NewReader(body)))
		if out.Code != http.StatusBadRequest {
			b.Fatal(out.Code)
		}
	}
}
