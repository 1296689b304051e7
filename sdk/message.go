package sdk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// sealed is a message of this agent, of now.
func (a *Agent) sealed(h envelope.Header, payload []byte) (*envelope.Envelope, error) {
	h.SourceAgent = a.id
	h.Timestamp = envelope.Timestamp{Time: time.Now()}
	if h.MsgID == "" {
		h.MsgID = newID()
	}
	if len(payload) > a.cfg.maxPayload {
		return nil, envelope.Errorf(envelope.TooLarge, envelope.StepSize, "payload is %d bytes; the limit is %d", len(payload), a.cfg.maxPayload)
	}
	e, err := envelope.New(h, payload)
	if err != nil {
		return nil, err
	}
	a.sealer.seal(e)
	return e, nil
}

// newID is 96 random bits in hexadecimal.
func newID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// encode makes a payload: nil is none, a jsontext.Value stands as it is, all else becomes JSON.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case jsontext.Value:
		if len(v) > 0 && !v.IsValid() {
			return nil, envelope.Errorf(envelope.Malformed, envelope.StepCall, "payload is not JSON")
		}
		return v, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepCall, "payload: %v", err)
	}
	return b, nil
}

// carry is what a handler's context gives to the calls made with it.
type carry struct {
	chain       []string // on whose behalf a call is asked
	traceID     string
	traceparent string
}

type carryKey struct{}

func handlerContext(ctx context.Context, h *envelope.Header, deadline time.Time) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, carryKey{}, &carry{append(slices.Clip(h.Chain), h.SourceAgent), h.TraceID, h.Traceparent})
	if deadline.IsZero() {
		deadline = time.Now().Add(h.TTL())
	}
	return context.WithDeadline(ctx, deadline)
}

// carried is what ctx gives to a call; nothing outside a handler.
func carried(ctx context.Context) *carry {
	if c, ok := ctx.Value(carryKey{}).(*carry); ok {
		return c
	}
	return &carry{}
}

// belongs checks that a part answers the request; from is who must have said it, empty: any agent.
func belongs(request, part *envelope.Envelope, from string) error {
	got, want := &part.Header, &request.Header
	for _, f := range [...]struct{ field, got, want string }{
		{"msg_type", string(got.MsgType), string(envelope.Response)},
		{"in_reply_to", got.InReplyTo, want.MsgID},
		{"target_agent", got.TargetAgent, want.SourceAgent},
		{"trace_id", got.TraceID, want.TraceID},
		{"source_agent", got.SourceAgent, from},
	} {
		if f.got != f.want && f.want != "" {
			return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "an answer came with %s %q instead of %q; it was dropped", f.field, f.got, f.want)
		}
	}
	return nil
}

// answerFault is a seal's fault as one of an answer.
func answerFault(from string, err error) error {
	if err == nil {
		return nil
	}
	e := *envelope.AsError(err)
	e.Step, e.Text = envelope.StepAnswer, "the answer of "+from+": "+e.Text
	return &e
}
