package httpagent

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// idleTimeout is shorter than the time after which usual servers close an idle connection (2 s and more): a request written
	// into a connection that its server is just closing may or may not have run.
	idleTimeout = 1500 * time.Millisecond
	maxHead     = 64 << 10 // bytes of an answer's header
)

// pool is an agent's connections, at most cap(places) at once.
type pool struct {
	places    chan struct{} // one for each exchange under way
	transport *http.Transport
	dialer    net.Dialer
}

func newPool(size int) *pool {
	p := &pool{places: make(chan struct{}, size), dialer: net.Dialer{Timeout: dialTimeout}}
	only1 := &http.Protocols{}
	only1.SetHTTP1(true)
	p.transport = &http.Transport{
		DialContext:            p.dial,
		DialTLSContext:         p.dialTLS,
		Protocols:              only1,
		MaxConnsPerHost:        size,
		MaxIdleConnsPerHost:    size,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHead,
		DisableCompression:     true, // an answer is taken as it stands; none unpacks to more than its limit
	}
	return p
}

// take waits for a place; false: ctx ended first.
func (p *pool) take(ctx context.Context) bool {
	select {
	case p.places <- struct{}{}:
		return true
	default:
	}
	select {
	case p.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pool) give() { <-p.places }

func (p *pool) close() { p.transport.CloseIdleConnections() }

func (p *pool) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := p.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// dialTLS makes the handshake here and not in net/http, so that what conn counts is requests only.
func (p *pool) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := p.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	name, _, _ := net.SplitHostPort(addr)
	c := tls.Client(raw, &tls.Config{ServerName: name, NextProtos: []string{"http/1.1"}})
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return &conn{Conn: c}, nil
}
