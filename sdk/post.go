package sdk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// post sends q, which is sealed, to the candidate itself and takes its answer.
//
// Errors: Unreachable when certainly nothing was handed over; Timeout when it may have run; what the agent's problem document says; those of
// the answer's checks, and of q.take.
func (a *Agent) post(ctx context.Context, q *question, c *Candidate) error {
	doc, err := q.AppendDocument(nil, c.Ticket)
	if err != nil {
		return err
	}
	var connected atomic.Bool // from then on something of the request may leave
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, c.Endpoint.URL, bytes.NewReader(doc))
	if err != nil {
		return envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "%s: %v", c.Agent, err)
	}
	req.Header.Set("Content-Type", jsonType)
	req.Header.Set(timeoutHeader, strconv.FormatInt(max(time.Until(q.deadline).Milliseconds(), 1), 10))
	resp, err := a.http.Do(req)
	if err != nil && !connected.Load() {
		return envelope.Errorf(envelope.Unreachable, envelope.StepDeliver, "%s: %v", c.Agent, err)
	}
	if err != nil {
		return unanswered(c, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return problemFrom(resp)
	}
	return a.takeAnswer(q, c, resp)
}

func unanswered(c *Candidate, err error) error {
	return envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "%s got the request, but gave no whole answer; it may have run: %v", c.Agent, err)
}

// takeAnswer reads a response document, or one a line.
func (a *Agent) takeAnswer(q *question, c *Candidate, resp *http.Response) error {
	limit := a.cfg.maxPayload + envelope.Overhead
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != linesType {
		b, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
		if err != nil {
			return unanswered(c, err)
		}
		return a.takePart(q, c, b)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, limit)
	for lines.Scan() {
		if err := a.takePart(q, c, bytes.Clone(lines.Bytes())); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return envelope.Errorf(envelope.TooLarge, envelope.StepAnswer, "%s answers with a part over %d bytes", c.Agent, limit)
	case err != nil:
		return unanswered(c, err)
	}
	return nil
}

func (a *Agent) takePart(q *question, c *Candidate, doc []byte) error {
	part, _, err := envelope.Decode(doc, a.cfg.maxPayload)
	if err != nil {
		return lastWords(doc, answerFault(c.Agent, err))
	}
	if err := belongs(q.Envelope, part, c.Agent); err != nil {
		return err
	}
	if err := a.verifier.Verify(part, c.Key); err != nil {
		return answerFault(c.Agent, err)
	}
	return q.take(part, true)
}

// lastWords is the error of a line {"error": {…}}, with which an answer ends that failed after it began; otherwise it is err.
func lastWords(doc []byte, err error) error {
	var said struct {
		Error jsontext.Value `json:"error"`
	}
	if json.Unmarshal(doc, &said, json.RejectUnknownMembers(true)) != nil || said.Error == nil {
		return err
	}
	e := envelope.UnmarshalError(said.Error)
	if e.Code.NotRun() { // parts came before: it did run
		e.Code = envelope.Timeout
	}
	return e
}
