package httpagent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"

	"github.com/agent-reach/agent-reach/envelope"
)

// question is one HTTP request to the agent.
type question struct {
	method, url string
	header      http.Header
	body        []byte
}

// ask takes a place in the pool and exchanges q.
//
// Errors: Unreachable when no place came free in time; those of exchange.
func (a *Agent) ask(ctx context.Context, q question, take func(*http.Response) error) error {
	if !a.pool.take(ctx) {
		return envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "nothing was handed to %s: all %d connections to %s were in use until %s",
			a.cfg.Agent, a.cfg.PoolSize, a.place, cause(ctx, nil)).
			WithHint("raise routing.connection_pool_size, or lower max_concurrent_requests of the agent")
	}
	defer a.pool.give()
	return a.exchange(ctx, q, take)
}

// exchange sends q and gives take the answer, whose body ends with the call. A connection that turns out to have died in the pool
// costs one more try on a fresh one: nothing had been written into it.
//
// Errors: Unreachable; Timeout; those of take.
func (a *Agent) exchange(ctx context.Context, q question, take func(*http.Response) error) error {
	resp, stale, err := a.send(ctx, q)
	if stale && ctx.Err() == nil {
		a.pool.close()
		resp, _, err = a.send(ctx, q)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return take(resp)
}

// send tries q once; stale: a connection from the pool failed before anything was written.
func (a *Agent) send(ctx context.Context, q question) (resp *http.Response, stale bool, err error) {
	t := &attempt{}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: t.got})
	req, err := http.NewRequestWithContext(traced, q.method, q.url, bytes.NewReader(q.body))
	if err != nil {
		return nil, false, envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "%s at %s: %v", a.cfg.Agent, a.place, err)
	}
	req.Header = q.header
	req.GetBody = nil // net/http cannot write the body a second time
	resp, err = a.pool.transport.RoundTrip(req)
	if err == nil {
		return resp, false, nil
	}
	if t.abandon() {
		return nil, t.reused, envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "nothing was handed to %s at %s: %s", a.cfg.Agent, a.place, cause(ctx, err))
	}
	return nil, false, a.broken(ctx, err)
}

// broken is the error for an exchange that ended after the request was handed over and before the answer was whole.
func (a *Agent) broken(ctx context.Context, err error) error {
	return envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "handed to %s at %s, but no whole answer came: %s; it may have run", a.cfg.Agent, a.place, cause(ctx, err))
}

// cause says in a few words why an exchange ended.
func cause(ctx context.Context, err error) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "its time ran out"
	case ctx.Err() != nil:
		return "the caller gave up"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the agent closed the connection"
	}
	return clip(err.Error(), maxQuoted)
}

// body reads an answer whole.
//
// Errors: TooLarge over limit bytes; Timeout when it does not come whole.
func (a *Agent) body(ctx context.Context, resp *http.Response, limit int) ([]byte, error) {
	if resp.ContentLength > int64(limit) {
		return nil, a.tooLarge(limit)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err != nil {
		return nil, a.broken(ctx, err)
	}
	if len(b) > limit {
		return nil, a.tooLarge(limit)
	}
	return b, nil
}

func (a *Agent) tooLarge(limit int) error {
	return envelope.Errorf(envelope.TooLarge, envelope.StepAnswer, "the answer of %s is over %d bytes; the payload limit is %d", a.cfg.Agent, limit, a.cfg.MaxPayload).
		WithHint("the agent ran; let it answer in parts")
}
