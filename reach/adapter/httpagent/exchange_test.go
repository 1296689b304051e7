package httpagent

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = call(t, newTestAgent(t, "http://"+l.Addr().String(), keyless), ask(t, "{}", nil))
	wantError(t, err, envelope.Unreachable, "refused", "nothing was handed")
}

// What was handed over and not answered may have run, however the agent went silent.
func TestSilenceAfterHandOver(t *testing.T) {
	readAll := func(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(c)) }
	for name, h := range map[string]func(net.Conn){
		"closes": func(c net.Conn) { readAll(c); c.Close() },
		"resets": func(c net.Conn) { readAll(c); c.(*net.TCPConn).SetLinger(0); c.Close() },
		"cuts the body": func(c net.Conn) {
			readAll(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
			c.Close()
		},
		"speaks nonsense": func(c net.Conn) { readAll(c); io.WriteString(c, "220 mail.example ESMTP\r\n\r\n"); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(t, newTestAgent(t, listen(t, h), keyless), ask(t, "{}", nil))
			wantError(t, err, envelope.Timeout, "may have run")
		})
	}
}

func TestDeadline(t *testing.T) {
	quit := make(chan struct{})
	defer close(quit)
	for name, h := range map[string]func(net.Conn){
		"never answers": func(c net.Conn) { defer c.Close(); <-quit },
		"a byte of the head now and then": func(c net.Conn) {
			defer c.Close()
			drip(c, "HTTP/1.1 200 OK\r\nX-A: "+strings.Repeat("a", 1<<20), quit)
		},
		"a byte of the body now and then": func(c net.Conn) {
			defer c.Close()
			drip(c, "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat(" ", 60000), quit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := callWithin(ctx, newTestAgent(t, listen(t, h), keyless), ask(t, "{}", nil))
			wantError(t, err, envelope.Timeout, "its time ran out", "may have run")
			if took := time.Since(began); took > patience/2 {
				t.Fatal(took)
			}
		})
	}
}

// Who gives up is told whether it may have run, and the error says that it was not the agent's doing.
func TestCallerGivesUp(t *testing.T) {
	arrived := make(chan struct{}, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	a := newTestAgent(t, s.URL, keyless)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, err := callWithin(ctx, a, ask(t, "{}", nil)); ended <- err }()
	<-arrived
	cancel()
	err := <-ended
	wantError(t, err, envelope.Timeout, "the caller gave up")
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err = callWithin(ctx, a, ask(t, "{}", nil))
	wantError(t, err, envelope.Unreachable, "the caller gave up")
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// drip reads a request and sends s, a byte at a time.
func drip(c net.Conn, s string, quit <-chan struct{}) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range len(s) {
		if _, err := io.WriteString(c, s[i:i+1]); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-quit:
			return
		}
	}
}

// The pool holds: never more connections than its size, and who finds none free in time has handed nothing over.
func TestPool(t *testing.T) {
	var open, most, ran atomic.Int32
	release, arrived := make(chan struct{}), make(chan struct{}, 8)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran.Add(1)
		arrived <- struct{}{}
		<-release
		io.WriteString(w, "1")
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			most.Store(max(most.Load(), open.Add(1)))
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	a := newTestAgent(t, s.URL, func(c *Config) { keyless(c); c.PoolSize = 2 })
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if _, err := call(t, a, ask(t, "{}", nil)); err != nil {
				t.Error(err)
			}
		})
	}
	<-arrived
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := callWithin(ctx, a, ask(t, "{}", nil))
	wantError(t, err, envelope.Unreachable, "all 2 connections", "connection_pool_size")
	wantError(t, a.Probe(ctx), envelope.Overloaded)
	if ran.Load() != 2 {
		t.Fatal("a call without a connection ran")
	}
	for range 6 {
		calls.Go(func() {
			if _, err := call(t, a, ask(t, "{}", nil)); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	calls.Wait()
	if most.Load() > 2 || ran.Load() != 8 {
		t.Fatalf("%d connections at once, %d ran", most.Load(), ran.Load())
	}
}

// Whatever goes wrong with connections and however early callers give up: no request arrives twice, and none that was reported as not
// handed over arrives at all.
func TestUnreachableNeverRan(t *testing.T) {
	var mu sync.Mutex
	arrived := map[string]int{}
	url := listen(t, func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		for mathrand.IntN(4) > 0 {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			mu.Lock()
			arrived[r.Header.Get("Agent-Reach-Msg-Id")]++
			mu.Unlock()
			io.Copy(io.Discard, r.Body)
			switch mathrand.IntN(4) {
			case 0:
				c.(*net.TCPConn).SetLinger(0)
				return
			case 1:
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}
		c.(*net.TCPConn).SetLinger(0)
	})
	a := newTestAgent(t, url, keyless)
	notRun, ids := sync.Map{}, make(chan string, 4000)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 80 {
				m := ask(t, "{}", nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(mathrand.IntN(1500))*time.Microsecond)
				_, err := callWithin(ctx, a, m)
				cancel()
				ids <- m.Header.MsgID
				if errors.Is(err, envelope.Unreachable) {
					notRun.Store(m.Header.MsgID, err)
				} else if err != nil && !errors.Is(err, envelope.Timeout) {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	close(ids)
	mu.Lock()
	defer mu.Unlock()
	spared := 0
	for id := range ids {
		if arrived[id] > 1 {
			t.Errorf("%s arrived %d times", id, arrived[id])
		}
		if err, ok := notRun.Load(id); ok {
			spared++
			if arrived[id] > 0 {
				t.Errorf("%s arrived, and was reported as %v", id, err)
			}
		}
	}
	if spared == 0 || len(arrived) == 0 {
		t.Fatalf("%d of %d were not handed over: the test shows nothing", spared, len(arrived))
	}
}

func TestAttempt(t *testing.T) {
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs)
	c := &conn{Conn: ours}
	given := &attempt{}
	c.current.Store(given)
	if !given.abandon() {
		t.Fatal("nothing was written, and abandon says otherwise")
	}
	if n, err := c.Write([]byte("late")); n != 0 || err == nil {
		t.Fatal("written after it was given up")
	}
	sent := &attempt{}
	c.current.Store(sent)
	if _, err := c.Write([]byte("x")); err != nil || sent.abandon() {
		t.Fatal(err, "it was written")
	}
	ours.Close()
	failed := &attempt{}
	c.current.Store(failed)
	if _, err := c.Write([]byte("x")); err == nil || !failed.abandon() {
		t.Fatal(err, "a write of nothing handed nothing over")
	}
}

// A server that closes its idle connections costs nobody a call.
func TestClosedWhileIdle(t *testing.T) {
	idle := make(chan net.Conn, 100)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "1") }))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			idle <- c
		}
	}
	s.Start()
	defer s.Close()
	a := newTestAgent(t, s.URL, keyless)
	for range 50 {
		parts, err := call(t, a, ask(t, "{}", nil))
		if errors.Is(err, envelope.Timeout) {
			continue // written into a connection that was being closed: rightly not repeated
		}
		if err != nil || len(parts) != 1 {
			t.Fatal(err)
		}
		(<-idle).Close()
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("spoke %s", r.Proto)
		}
		io.WriteString(w, "1")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it is spoken to wrongly below
	s.StartTLS()
	defer s.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	a := newTestAgent(t, s.URL, keyless)
	for range 2 {
		if _, err := call(t, a, ask(t, "{}", nil)); err != nil {
			t.Fatal(err)
		}
	}
	plain := newTestAgent(t, strings.Replace(s.URL, "https", "http", 1), keyless)
	if parts, err := call(t, plain, ask(t, "{}", nil)); err != nil || parts[0].Header.Status != envelope.StatusError {
		t.Fatal(parts, err)
	}
	other := newTestAgent(t, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), keyless)
	_, err := call(t, other, ask(t, "{}", nil))
	wantError(t, err, envelope.Unreachable, "certificate")
}
