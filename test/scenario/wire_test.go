package scenario

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawServer is a web server that shows the bytes of each request, and answers with any bytes.
type rawServer struct {
	url string

	mu       sync.Mutex
	requests []rawRequest
	respond  func(r rawRequest) (response string, hangUp bool)
}

// rawRequest is one request as it came over the wire.
type rawRequest struct {
	line, body string
	headers    []string // "Name: value", in order
}

// names are the request's header names, in order.
func (r rawRequest) names() (out []string) {
	for _, h := range r.headers {
		name, _, _ := strings.Cut(h, ":")
		out = append(out, name)
	}
	return out
}

func (r rawRequest) value(name string) string {
	for _, h := range r.headers {
		if at, value, _ := strings.Cut(h, ":"); strings.EqualFold(at, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func startRawServer(t testing.TB, respond func(rawRequest) (string, bool)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &rawServer{url: "http://" + l.Addr().String(), respond: respond}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			running.Go(func() { defer c.Close(); s.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return s
}

func (s *rawServer) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		r, err := readRaw(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, r)
		respond := s.respond
		s.mu.Unlock()
		response, hangUp := respond(r)
		if _, err := io.WriteString(c, response); err != nil || hangUp {
			return
		}
	}
}

// readRaw reads a request whose body has a Content-Length or none.
func readRaw(in *bufio.Reader) (r rawRequest, err error) {
	if r.line, err = readLine(in); err != nil {
		return r, err
	}
	for {
		h, err := readLine(in)
		if err != nil {
			return r, err
		}
		if h == "" {
			break
		}
		r.headers = append(r.headers, h)
	}
	n, _ := strconv.Atoi(r.value("Content-Length"))
	body := make([]byte, n)
	_, err = io.ReadFull(in, body)
	r.body = string(body)
	return r, err
}

func readLine(in *bufio.Reader) (string, error) {
	text, err := in.ReadString('\n')
	return strings.TrimSuffix(text, "\r\n"), err
}

// posts are the requests with method POST so far; a node probes with GET.
func (s *rawServer) posts() (out []rawRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r.line, "POST ") {
			out = append(out, r)
		}
	}
	return out
}

func (s *rawServer) answerWith(respond func(rawRequest) (string, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.respond = respond
}

// jsonAnswer is a good response.
func jsonAnswer(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// exchange writes bytes to the node over a connection of their own, and reads the responses until the node closes it, or is silent for a
// moment after at least one.
func (n *node) exchange(t testing.TB, request string) (responses []reply, closed bool) {
	t.Helper()
	c, err := net.Dial("tcp", n.addr)
	must(t, err)
	defer c.Close()
	_, err = io.WriteString(c, request)
	must(t, err)
	in := bufio.NewReader(c)
	for {
		wait := patience
		if len(responses) > 0 {
			wait = 300 * time.Millisecond
		}
		must(t, c.SetReadDeadline(time.Now().Add(wait)))
		if _, err := in.Peek(1); err != nil {
			var late net.Error
			return responses, !(asNetError(err, &late) && late.Timeout())
		}
		must(t, c.SetReadDeadline(time.Now().Add(patience)))
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		responses = append(responses, reply{resp.StatusCode, resp.Header, body})
	}
}

// rawPost is a request with these header lines before its body; without a Content-Length among them the true one is added.
func rawPost(path string, body []byte, headers ...string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\n", path)
	measured := false
	for _, h := range headers {
		measured = measured || strings.HasPrefix(strings.ToLower(h), "content-length:") || strings.HasPrefix(strings.ToLower(h), "transfer-encoding:")
		b.WriteString(h + "\r\n")
	}
	if !measured {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.String()
}
