package sdk

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Media types.
const (
	jsonType    = "application/json"
	linesType   = "application/x-ndjson"
	problemType = "application/problem+json"
)

// timeoutHeader carries what is left of a deadline, in milliseconds.
const timeoutHeader = "Agent-Reach-Timeout-Ms"

const (
	maxConnsPerAgent = 64
	maxProblem       = 64 << 10 // bytes of a problem document
	// idleTimeout is shorter than the time after which usual servers close an idle connection: a request written into a connection that its server is
	// just closing may or may not have run.
	idleTimeout = 1500 * time.Millisecond
)

// newHTTPClient makes the client for nodes and for direct calls. It follows no redirect: what is meant for one address goes to no other.
func newHTTPClient() *http.Client {
	only1 := new(http.Protocols)
	only1.SetHTTP1(true)
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxIdleConns:           256,
			MaxIdleConnsPerHost:    maxConnsPerAgent,
			MaxConnsPerHost:        maxConnsPerAgent,
			MaxResponseHeaderBytes: 64 << 10,
			IdleConnTimeout:        idleTimeout,
			Protocols:              only1,
			DisableCompression:     true,
		},
	}
}

// fetch asks a node over HTTP. The caller closes the body of the 2xx answer it returns; any other becomes an error.
//
// Errors: Unreachable if there was no HTTP answer; else what the node's problem document says.
func (a *Agent) fetch(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepCall, "%v", err)
	}
	req.Header.Set("Content-Type", jsonType)
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, envelope.Errorf(envelope.Unreachable, envelope.StepLink, "node: %v", err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, problemFrom(resp)
}

// problemFrom reads a problem document as the error that it is.
func problemFrom(resp *http.Response) *envelope.Error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return envelope.Errorf(envelope.Timeout, envelope.StepAnswer, "HTTP %s, and then: %v", resp.Status, err)
	}
	e, ok := decodeProblem(b)
	if !ok {
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "HTTP %s without a problem document", resp.Status)
	}
	return e
}
