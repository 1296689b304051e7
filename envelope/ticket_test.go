package envelope_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func ticket() envelope.Ticket {
	return envelope.Ticket{
		ID: "t-1", Node: "node-a", Caller: "order-agent", CallerKey: seller.Public(), Capability: "stock.query", Agent: "stock-01",
		Expires: envelope.Timestamp{Time: at.Add(time.Minute)},
	}
}

func TestTicketRoundTrip(t *testing.T) {
	doc, err := envelope.SealTicket(another, ticket())
	ok(t, err)
	got, err := envelope.OpenTicket(doc, another.Public(), at.Time)
	ok(t, err)
	if got != ticket() {
		t.Errorf("%+v, want %+v", got, ticket())
	}
}

// TestLongestTicketFits: with every id at its limit a ticket stays below MaxTicket.
func TestLongestTicketFits(t *testing.T) {
	long := strings.Repeat("x", envelope.MaxID)
	big := ticket()
	big.ID, big.Node, big.Caller, big.Capability, big.Agent = long, long, long, long, long
	big.Expires.Time = big.Expires.Add(time.Nanosecond)
	doc, err := envelope.SealTicket(another, big)
	ok(t, err)
	_, err = envelope.OpenTicket(doc, another.Public(), at.Time)
	ok(t, err)
	_, err = envelope.OpenTicket(append(doc, make([]byte, envelope.MaxTicket)...), another.Public(), at.Time)
	want(t, err, envelope.TooLarge, "the limit is 2048")
}

func TestErrorsOfTickets(t *testing.T) {
	doc, err := envelope.SealTicket(another, ticket())
	ok(t, err)
	open := func(doc string, key envelope.PrivateKey, after time.Duration) error {
		_, err := envelope.OpenTicket([]byte(doc), key.Public(), at.Add(after))
		return err
	}
	want(t, open(string(doc), seller, 0), envelope.BadSeal, "not signed by this agent's home node")
	want(t, open(strings.Replace(string(doc), "stock-01", "stock-02", 1), another, 0), envelope.BadSeal)
	want(t, open(string(doc), another, time.Minute+121*time.Second), envelope.Expired, "expired 2m1s ago", "clock", "NTP", "look up again")
	want(t, open(string(doc), another, -121*time.Second), envelope.ClockSkew, "3m1s", "clock is behind", "NTP")
	want(t, open(`{"body":1}x`, another, 0), envelope.Malformed, "after top-level value")
	want(t, open(`{"body":1,"sig":"?"}`, another, 0), envelope.Malformed, "/sig", "base64")
	want(t, open(`{"body":1,"ticket":1}`, another, 0), envelope.Malformed, "/ticket", "no member")
}

func TestTicketAdmitsOneCallOnly(t *testing.T) {
	tk := ticket()
	call := &envelope.Envelope{Header: request()}
	ok(t, tk.Admits(call, "stock-01"))
	want(t, tk.Admits(call, "stock-02"), envelope.Forbidden, `ticket lets order-agent call "stock.query" on stock-01, not order-agent call "stock.query" on stock-02`)
	for _, change := range []func(h *envelope.Header){
		func(h *envelope.Header) { h.SourceAgent = "order-agent-2" },
		func(h *envelope.Header) { h.TargetCapability = "stock.query.all" },
		func(h *envelope.Header) { h.TargetCapability = "" },
	} {
		other := &envelope.Envelope{Header: request()}
		change(&other.Header)
		want(t, tk.Admits(other, "stock-01"), envelope.Forbidden)
	}
}
