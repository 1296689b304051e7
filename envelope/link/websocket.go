package link

import (
	"context"
	"errors"
	"io"

	"github.com/coder/websocket"
)

// Subprotocol is what both sides of a WebSocket agree on.
const Subprotocol = "agent-reach.3"

// WebSocket makes a byte stream of a WebSocket: messages are binary, and their boundaries mean nothing. Unlike websocket.NetConn it sets no
// timer for each read and write, and Close does not wait for the peer's close frame: a link has said goodbye already.
func WebSocket(c *websocket.Conn) io.ReadWriteCloser {
	c.SetReadLimit(-1) // a message is read in pieces; link bounds them
	return &socket{conn: c}
}

type socket struct {
	conn    *websocket.Conn
	message io.Reader // being read; nil: none
}

func (s *socket) Read(p []byte) (int, error) {
	for {
		if s.message == nil {
			kind, r, err := s.conn.Reader(context.Background())
			if err != nil {
				return 0, closing(err)
			}
			s.message = r
			if kind != websocket.MessageBinary {
				return 0, malformed("a WebSocket message is %v; a link's are binary", kind)
			}
		}
		n, err := s.message.Read(p)
		if errors.Is(err, io.EOF) {
			s.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// closing makes a regular close frame the end of the stream.
func closing(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway:
		return io.EOF
	}
	return err
}

func (s *socket) Write(p []byte) (int, error) {
	if err := s.conn.Write(context.Background(), websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *socket) Close() error { return s.conn.CloseNow() }
