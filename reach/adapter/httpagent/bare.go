package httpagent

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// callBare hands a keyless agent the bare payload and makes the response in its name.
func (a *Agent) callBare(ctx context.Context, m *reach.Message, sink reach.Sink) error {
	if len(m.Payload) > 0 && !jsontext.Value(m.Payload).IsValid() {
		return envelope.Errorf(envelope.Malformed, envelope.StepDeliver, "payload is not JSON, and %s is sent JSON only", a.cfg.Agent)
	}
	header := a.header(ctx, &m.Header)
	header["Agent-Reach-Msg-Id"] = []string{m.Header.MsgID}
	header["Agent-Reach-Trace-Id"] = []string{m.Header.TraceID}
	header["Agent-Reach-Caller"] = []string{m.Header.SourceAgent}
	if name := capability(&m.Header); name != "" {
		header["Agent-Reach-Capability"] = []string{name}
	}
	var answer *envelope.Envelope
	err := a.ask(ctx, question{http.MethodPost, a.cfg.URL, header, m.Payload}, func(resp *http.Response) (err error) {
		answer, err = a.vouch(ctx, resp, &m.Header)
		return err
	})
	if err != nil {
		return err
	}
	return sink(answer)
}

// vouch makes the sealed response that stands for what a keyless agent answered.
func (a *Agent) vouch(ctx context.Context, resp *http.Response, asked *envelope.Header) (*envelope.Envelope, error) {
	if err := a.busy(resp); err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return a.failure(asked, a.described(resp))
	}
	b, err := a.body(ctx, resp, a.cfg.MaxPayload)
	if err != nil {
		return nil, err
	}
	// White space around the value is no part of a payload, and would not survive a JSON document.
	b = bytes.Trim(b, " \t\r\n")
	if len(b) > 0 && !jsontext.Value(b).IsValid() {
		return a.failure(asked, fmt.Sprintf("HTTP %d from %s with a body that is not JSON: %s", resp.StatusCode, a.place, clip(string(b), maxQuoted)))
	}
	return a.response(asked, envelope.Header{Status: envelope.StatusOK}, b)
}

// failure is a response that says the agent failed.
func (a *Agent) failure(asked *envelope.Header, text string) (*envelope.Envelope, error) {
	said, err := json.Marshal(&struct {
		Code envelope.Code `json:"code"`
		Text string        `json:"text"`
	}{envelope.AgentFailed, text})
	if err != nil {
		return nil, envelope.Errorf(envelope.Internal, envelope.StepAnswer, "%v", err)
	}
	return a.response(asked, envelope.Header{Status: envelope.StatusError, Error: said}, nil)
}

// response completes h to the response to asked and seals it in the agent's name.
func (a *Agent) response(asked *envelope.Header, h envelope.Header, payload []byte) (*envelope.Envelope, error) {
	h.MsgID, h.TraceID, h.InReplyTo = rand.Text(), asked.TraceID, asked.MsgID
	h.MsgType, h.Timestamp = envelope.Response, envelope.Timestamp{Time: time.Now()}
	h.SourceAgent, h.TargetAgent, h.TargetCapability = a.cfg.Agent, asked.SourceAgent, asked.TargetCapability
	h.VouchedBy = a.cfg.Node
	e, err := envelope.New(h, payload)
	if err != nil {
		return nil, err
	}
	envelope.Sign(a.cfg.VouchKey, e)
	return e, nil
}

// probeBare asks for the agent's probe address, or for any sign of life at its address.
func (a *Agent) probeBare(ctx context.Context) error {
	url := a.cfg.ProbeURL
	if url == "" {
		url = a.cfg.URL
	}
	q := question{method: http.MethodGet, url: url, header: http.Header{"User-Agent": {userAgent}}}
	return a.probe(ctx, q, func(resp *http.Response) error {
		if a.cfg.ProbeURL == "" || resp.StatusCode >= 200 && resp.StatusCode <= 299 {
			return nil
		}
		return envelope.Errorf(envelope.AgentFailed, envelope.StepAnswer, "the probe of %s at %s was answered with HTTP %d; 2xx would say that it is ready", a.cfg.Agent, url, resp.StatusCode)
	})
}
