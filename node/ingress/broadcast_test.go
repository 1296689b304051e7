package ingress

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestBroadcast(t *testing.T) {
	w := start(t)
	first := w.agent("a", echo, "poll")
	w.agent("b", counting(2, nil), "poll")
	w.agent("c", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		return send("error:asleep")
	}, "poll")
	w.agent("d", counting(0, envelope.Errorf(envelope.Overloaded, envelope.StepDeliver, "no room")), "poll")
	caller := w.caller("caller")
	h := caller.header(envelope.Broadcast)
	h.TargetCapability = "poll"
	payload := `{"kept": [ 1.0,"\u00e9" ]}`
	answer := w.post("/v1/messages", caller.seal(h, payload)).envelope(t)
	if err := answer.Verify(w.key.Public()); err != nil || answer.Header.SourceAgent != w.id || answer.Header.InReplyTo != h.MsgID {
		t.Fatalf("%v: %+v", err, answer.Header)
	}
	var reply broadcastReply
	unmarshal(t, answer.Payload, &reply)
	if len(reply.Outcomes) != 4 {
		t.Fatalf("%s", answer.Payload)
	}
	a, b, c, d := reply.Outcomes[0], reply.Outcomes[1], reply.Outcomes[2], reply.Outcomes[3]
	if !a.OK || string(decode(t, a.Response).Payload) != payload || a.Error != nil {
		t.Errorf("a: %+v", a)
	}
	if err := decode(t, a.Response).Verify(first.key.Public()); err != nil {
		t.Errorf("a's answer lost its seal: %v", err)
	}
	if !b.OK || len(b.Responses) != 2 || b.Response != nil {
		t.Errorf("b: %+v", b)
	}
	if c.OK || !strings.Contains(string(c.Error), "asleep") || decode(t, c.Response).Header.SourceAgent != "c" {
		t.Errorf("c: %+v", c)
	}
	if d.OK || !errors.Is(envelope.UnmarshalError(d.Error), envelope.Overloaded) || d.Response != nil || d.DurationMS <= 0 {
		t.Errorf("d: %+v", d)
	}
}

// Answers that do not fit beside the others are reported, not dropped.
func TestBroadcastThatGrowsTooLarge(t *testing.T) {
	w := start(t, func(w *world) { w.cfg.MaxPayload = 4000 })
	large := func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		return send(`"` + strings.Repeat("x", 1500) + `"`)
	}
	for _, id := range []string{"a", "b", "c"} {
		w.agent(id, large, "poll")
	}
	caller := w.caller("caller")
	h := caller.header(envelope.Broadcast)
	h.TargetCapability = "poll"
	var reply broadcastReply
	unmarshal(t, w.post("/v1/messages", caller.seal(h, "1")).envelope(t).Payload, &reply)
	fine := 0
	for _, o := range reply.Outcomes {
		if o.OK {
			fine++
		} else if !errors.Is(envelope.UnmarshalError(o.Error), envelope.TooLarge) {
			t.Errorf("%s: %s", o.Agent, o.Error)
		}
	}
	if len(reply.Outcomes) != 3 || fine == 0 || fine == 3 {
		t.Errorf("%d of %d fine", fine, len(reply.Outcomes))
	}
}
