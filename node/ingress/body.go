package ingress

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// A peer that sends or takes less than slowest bytes a second, after a start of patience, is given up.
const (
	patience  = 10 * time.Second
	slowest   = 64 << 10
	firstRead = 32 << 10 // bytes allocated on the word of Content-Length alone
)

func timeFor(bytes int) time.Duration {
	return patience + time.Duration(bytes)*time.Second/slowest
}

// hurry sets the time within which the peer must have taken the next bytes.
func hurry(w http.ResponseWriter, bytes int) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeFor(bytes)))
}

// readBody reads a JSON body of at most bodyLimit bytes, into memory of its own. free gives its share of MaxBodies back.
//
// Errors: Malformed, TooLarge, Overloaded, Expired (the body came too slowly).
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, free func(), err error) {
	if err := checkContentType(r); err != nil {
		return nil, nil, err
	}
	limit := s.cfg.bodyLimit()
	if r.ContentLength > int64(limit) {
		return nil, nil, tooLarge(limit, s.cfg.MaxPayload)
	}
	reserved := limit
	if r.ContentLength >= 0 {
		reserved = int(r.ContentLength)
	}
	if !s.bodies.take(reserved) {
		return nil, nil, envelope.Errorf(envelope.Overloaded, envelope.StepSize, "the node holds %d bytes of messages, its limit, and has no room for this one", s.cfg.MaxBodies).
			WithRetryAfter(time.Second)
	}
	body, err = s.take(w, r, limit)
	if err != nil {
		s.bodies.give(reserved)
		return nil, nil, err
	}
	return body, func() { s.bodies.give(reserved) }, nil
}

func (s *Server) take(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	// The server lifts the deadline when the body has ended.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeFor(max(int(r.ContentLength), 0))))
	body, err := readAll(http.MaxBytesReader(w, r.Body, int64(limit)), int(r.ContentLength))
	if err != nil {
		return nil, bodyError(err, limit, s.cfg.MaxPayload)
	}
	return body, nil
}

// readAll reads size bytes, -1: until the end. The slice grows with what arrives, at most twofold, and in the end has no room to
// spare if the size was known.
func readAll(r io.Reader, size int) ([]byte, error) {
	room := firstRead
	if size >= 0 {
		room = min(size, firstRead)
	}
	body := make([]byte, 0, max(room, 1))
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
		if len(body) == size {
			return body, drained(r)
		}
		if len(body) == cap(body) {
			body = grown(body, size)
		}
	}
}

func grown(body []byte, size int) []byte {
	room := 2 * cap(body)
	if size >= 0 {
		room = min(room, size)
	}
	return append(make([]byte, 0, room), body...)
}

// drained takes the end of the stream, so that the connection can be used again.
func drained(r io.Reader) error {
	var one [1]byte
	if _, err := r.Read(one[:]); err != nil && err != io.EOF {
		return err
	}
	return nil
}

func checkContentType(r *http.Request) error {
	kinds := r.Header.Values("Content-Type")
	if len(kinds) == 0 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(kinds[0])
	if err != nil || kind != jsonType || len(kinds) > 1 {
		return envelope.Errorf(envelope.Malformed, envelope.StepDecode, "content type is %.100q", kinds).WithHint("send %s", jsonType)
	}
	return nil
}

func tooLarge(limit, maxPayload int) error {
	return envelope.Errorf(envelope.TooLarge, envelope.StepSize, "body is over %d bytes, the limit for a payload of up to %d bytes", limit, maxPayload).
		WithHint("send a reference to the data, or have the administrator raise the limit")
}

func bodyError(err error, limit, maxPayload int) error {
	var over *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &over):
		return tooLarge(limit, maxPayload)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return envelope.Errorf(envelope.Expired, envelope.StepSize, "the body came slower than %d bytes a second", slowest)
	}
	return envelope.Errorf(envelope.Malformed, envelope.StepDecode, "body cannot be read: %v", err)
}
