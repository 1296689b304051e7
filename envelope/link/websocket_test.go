package link

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/agent-reach/agent-reach/envelope"
)

// webSockets connects both ends through a real HTTP server on loopback, and makes streams of them with wrap.
func webSockets(t testing.TB, wrap func(*websocket.Conn) io.ReadWriteCloser) (a, b io.ReadWriteCloser) {
	t.Helper()
	accepted, release := make(chan *websocket.Conn, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}})
		if err != nil {
			t.Error(err)
		}
		accepted <- c
		<-release
	}))
	t.Cleanup(func() {
		close(release)
		server.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, strings.Replace(server.URL, "http", "ws", 1), &websocket.DialOptions{Subprotocols: []string{Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	return wrap(c), wrap(await(t, accepted, "the server's end"))
}

func TestOverWebSocket(t *testing.T) {
	for name, wrap := range map[string]func(*websocket.Conn) io.ReadWriteCloser{
		"WebSocket": WebSocket,
		"NetConn": func(c *websocket.Conn) io.ReadWriteCloser {
			return websocket.NetConn(context.Background(), c, websocket.MessageBinary)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dialer, acceptor := configs()
			a, b := webSockets(t, wrap)
			l := runOver(t, a, b, dialer, acceptor, echo, echo)
			var all sync.WaitGroup
			sealed := ask(t, 0)
			for i := range 50 {
				for _, end := range []*Link{l.Link, l.other} {
					all.Go(func() {
						e := carrying(sealed, i*1000)
						parts, err := collect(t.Context(), end, e, Hop{})
						if err != nil || len(parts) != 1 || !parts[0].Same(e) {
							t.Errorf("call %d: %d parts, %v", i, len(parts), err)
						}
					})
				}
			}
			all.Wait()
			if parts, err := collect(t.Context(), l.Link, ask(t, 4<<20), Hop{}); err != nil || len(parts) != 1 {
				t.Errorf("4 MiB: %d parts, %v", len(parts), err)
			}
			l.other.Close(envelope.Errorf(envelope.Unreachable, envelope.StepLink, "node-1 is being replaced"))
			if err := await(t, l.ranA, "the dialer's Run"); !strings.Contains(err.Error(), "being replaced") {
				t.Errorf("the dialer was told %v", err)
			}
		})
	}
}

func TestWebSocketRefusal(t *testing.T) {
	dialer, acceptor := configs()
	acceptor.Authorize = func(Peer) error {
		return envelope.Errorf(envelope.Conflict, envelope.StepLink, "held by another key")
	}
	a, b := webSockets(t, WebSocket)
	if dialed, _ := shake(t, a, b, dialer, acceptor); !errors.Is(dialed.err, envelope.Conflict) {
		t.Errorf("the dialer was told %v", dialed.err)
	}
}

func TestWebSocketBreach(t *testing.T) {
	dialer, acceptor := configs()
	acceptor.Log = quiet
	a, b := webSockets(t, WebSocket)
	l := runOver(t, a, b, dialer, acceptor, echo, echo)
	if err := a.(*socket).conn.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := await(t, l.ranA, "the dialer's Run"); !errors.Is(err, envelope.Malformed) {
		t.Errorf("the dialer was told %v", err)
	}
}
