package scenario

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/sdk"
)

// level is what a node holds.
type level struct{ goroutines, resident, links, descriptors float64 }

func (n *node) level(t testing.TB) level {
	m := n.metrics(t)
	return level{m["go_goroutines"], m["process_resident_memory_bytes"], m["agent_reach_links"], m["process_open_fds"]}
}

// TestLevelAfterAbuse: 1,000 connections of every bad kind and 500 requests that are given up leave nothing behind.
func TestLevelAfterAbuse(t *testing.T) {
	n := startNode(t, settings{"logging.access_log_enabled": "false"})
	holding := newAgent(t, n, "holding", sdk.WithMaxConcurrent(100))
	holding.Handle(offer("work.hold"), func(ctx context.Context, _ *sdk.Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
	holding.Handle(offer("work.quick"), echo)
	serve(t, holding)
	v := registered(t, n, "voice")
	fresh := n.level(t)
	abuse(t, n, v, 100, 50) // for what a node allocates once and keeps
	before := n.settled(t, v, fresh)
	abuse(t, n, v, 1000, 500)
	after := n.settled(t, v, fresh)
	if grown := after.resident - before.resident; grown > 48<<20 && !raceEnabled {
		t.Errorf("the node holds %.0f MiB more than before", grown/(1<<20))
	}
	if r := v.ask("work.quick", `{}`); r.status != 200 {
		t.Errorf("after all that: %s", r.body)
	}
}

// settled waits until the node is back at a level: as many goroutines, links and connections, and no call running.
func (n *node) settled(t testing.TB, v *voice, back level) (now level) {
	t.Helper()
	v.http.CloseIdleConnections()
	ok := soon(func() bool {
		now = n.level(t)
		return now.goroutines <= back.goroutines+5 && now.descriptors <= back.descriptors+5 && now.links == back.links && n.running(t, "holding") == 0
	})
	if !ok {
		t.Errorf("the node had %+v, and does not come back from %+v", back, now)
	}
	return now
}

// abuse opens connections that do no good, and gives up requests in every state, a few at a time.
func abuse(t *testing.T, n *node, v *voice, connections, requests int) {
	t.Helper()
	kinds := []func(testing.TB, *node, *voice){silent, halfHeader, halfBody, noHTTP, badLink, droppedLink}
	each(connections, func(i int) { kinds[i%len(kinds)](t, n, v) })
	each(requests, func(i int) { giveUp(t, n, v, i%2 == 0) })
}

// each runs f for 0 … count-1, twenty at a time.
func each(count int, f func(i int)) {
	var all sync.WaitGroup
	room := make(chan struct{}, 20)
	for i := range count {
		room <- struct{}{}
		all.Go(func() { f(i); <-room })
	}
	all.Wait()
}

// writeAndHangUp writes some bytes and cuts the connection, with a reset.
func writeAndHangUp(t testing.TB, n *node, text string) {
	c, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(c, text)
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

func silent(t testing.TB, n *node, _ *voice) { writeAndHangUp(t, n, "") }

func halfHeader(t testing.TB, n *node, _ *voice) {
	writeAndHangUp(t, n, "POST /v1/messages HTTP/1.1\r\nHost: node\r\nContent-")
}

func halfBody(t testing.TB, n *node, _ *voice) {
	writeAndHangUp(t, n, "POST /v1/messages HTTP/1.1\r\nHost: node\r\nContent-Length: 4000000\r\n\r\n{\"envelope\":")
}

func noHTTP(t testing.TB, n *node, _ *voice) {
	writeAndHangUp(t, n, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
}

// badLink gets as far as hello.
func badLink(t testing.TB, n *node, v *voice) {
	conn := openSocket(t, n)
	_, _ = link.WebSocket(conn).Write(rawFrame(frameHello, 0, 0, v.hello()))
	conn.CloseNow()
}

// droppedLink has a call open when it is cut off.
func droppedLink(t testing.TB, n *node, v *voice) {
	l, err := (&voice{t, n, v.id, v.key, v.http}).dial(nil)
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	_, _ = say(ctx, l, v.seal(v.header(envelope.Request, "work.hold"), `{}`))
	l.Close(nil)
}

// giveUp posts a request that is held, and leaves before its answer: with the connection cut, or by the client's time-out.
func giveUp(t testing.TB, n *node, v *voice, cut bool) {
	doc := v.document(v.header(envelope.Request, "work.hold"), `{}`)
	if cut {
		writeAndHangUp(t, n, rawPost("/v1/messages", doc))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := v.tryPost(ctx, "/v1/messages", doc); err == nil {
		t.Error(fmt.Errorf("a held request was answered"))
	}
}
