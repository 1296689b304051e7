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
	share := &share{of: &s.bodies}
	source := &paced{w: http.NewResponseController(w), r: http.MaxBytesReader(w, r.Body, int64(limit)), began: time.Now()}
	body, err = readAll(source, int(r.ContentLength), share)
	if err != nil {
		share.free()
		return nil, nil, s.bodyError(err)
	}
	return body, share.free, nil
}

// paced reads a body from a peer that must keep the pace of timeFor: what it has not announced but sent counts. The server lifts the
// deadline when the body has ended.
type paced struct {
	w     *http.ResponseController
	r     io.Reader
	began time.Time
	got   int
}

// Read waits for the next bytes no longer than those that came allow.
func (p *paced) Read(b []byte) (int, error) {
	p.w.SetReadDeadline(p.began.Add(timeFor(p.got)))
	n, err := p.r.Read(b)
	p.got += n
	return n, err
}

// share is what one body has of the budget for all: no more than was allocated for it, whatever was announced.
type share struct {
	of   *budget
	have int
}

func (s *share) take(n int) error {
	if !s.of.take(n) {
		return errFull
	}
	s.have += n
	return nil
}

func (s *share) free() { s.of.give(s.have) }

var errFull = errors.New("no room for more bodies")

// readAll reads size bytes, -1: until the end. The slice grows with what arrives, at most twofold, and in the end has no room to
// spare if the size was known. Its room is taken from share.
func readAll(r io.Reader, size int, share *share) ([]byte, error) {
	room := firstRead
	if size >= 0 {
		room = max(min(size, firstRead), 1)
	}
	if err := share.take(room); err != nil {
		return nil, err
	}
	body := make([]byte, 0, room)
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) == size:
			return body, drained(r)
		case len(body) == cap(body):
			next := grownRoom(cap(body), size)
			if err := share.take(next - cap(body)); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, next), body...)
		}
	}
}

func grownRoom(room, size int) int {
	if size >= 0 {
		return min(2*room, size)
	}
	return 2 * room
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

func (s *Server) bodyError(err error) error {
	var over *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &over):
		return tooLarge(s.cfg.bodyLimit(), s.cfg.MaxPayload)
	case errors.Is(err, errFull):
		return envelope.Errorf(envelope.Overloaded, envelope.StepSize, "the node holds %d bytes of messages, its limit, and has no room for this one", s.cfg.MaxBodies).
			WithRetryAfter(time.Second)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return envelope.Errorf(envelope.Expired, envelope.StepSize, "the body came slower than %d bytes a second", slowest)
	}
	return envelope.Errorf(envelope.Malformed, envelope.StepDecode, "body cannot be read: %v", err)
}
