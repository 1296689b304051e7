package scenario

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// newAgent makes an agent of the Go SDK, closed when the test ends. It does not run before serve or its first call.
func newAgent(t testing.TB, n *node, id string, options ...sdk.Option) *sdk.Agent {
	t.Helper()
	options = append([]sdk.Option{
		sdk.WithNode(n.url), sdk.WithDrain(time.Second), sdk.WithLogger(slog.New(slog.DiscardHandler)),
	}, options...)
	a, err := sdk.New(id, options...)
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

// serve runs the agent, and returns when its node has found it ready. ended gets Run's error.
func serve(t testing.TB, a *sdk.Agent) (ended <-chan error) {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- a.Run(context.WithoutCancel(t.Context())) }()
	must(t, a.Ready(short(t)))
	return end
}

// offer is a capability that takes anything.
func offer(name string) sdk.Capability { return sdk.Capability{Name: name, Version: "1.0.0"} }

// echo answers with what it was asked.
func echo(_ context.Context, r *sdk.Request) (any, error) { return jsontext.Value(r.Payload), nil }

// serveEcho is an agent that answers one capability with what it was asked.
func serveEcho(t testing.TB, n *node, id, capability string, options ...sdk.Option) *sdk.Agent {
	t.Helper()
	a := newAgent(t, n, id, options...)
	a.Handle(offer(capability), echo)
	serve(t, a)
	return a
}

// httpServer is a web server whose handler is set later; until then it answers 503.
type httpServer struct {
	*httptest.Server
	handler http.Handler
}

func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.handler == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// newHTTPAgent is newAgent for an agent that a node reaches over HTTP. wrap, if set, stands before its handler.
func newHTTPAgent(t testing.TB, n *node, id string, wrap func(http.Handler) http.Handler, options ...sdk.Option) *sdk.Agent {
	t.Helper()
	s := &httpServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	at := envelope.Endpoint{Type: envelope.HTTPEndpoint, URL: s.URL + "/rpc"}
	a := newAgent(t, n, id, append(options, sdk.WithEndpoint(at))...)
	s.handler = a.HTTPHandler()
	if wrap != nil {
		s.handler = wrap(s.handler)
	}
	return a
}
