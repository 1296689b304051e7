package vectors

import (
	"fmt"
	"strings"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

var issued = time.Date(2025, 6, 5, 6, 12, 33, 0, time.UTC)

func goodTicket() envelope.Ticket {
	return envelope.Ticket{
		ID: "t-1", Node: node.Public().Fingerprint(), Caller: "order-agent", CallerKey: sender.Public(),
		Capability: "stock.query", Agent: "stock-01", Expires: envelope.Timestamp{Time: issued.Add(time.Minute)},
	}
}

func ticketText(key envelope.PrivateKey, t envelope.Ticket) string {
	doc, err := envelope.SealTicket(key, t)
	if err != nil {
		panic(err)
	}
	return string(doc)
}

// rawTicket signs any body.
func rawTicket(body string) string {
	sig := node.SignFor("agent-reach/3.0 ticket", []byte(body))
	return fmt.Sprintf(`{"body":%s,"sig":%q}`, body, encode64(sig))
}

func tickets() []ticketCase {
	doc := ticketText(node, goodTicket())
	var cases []ticketCase
	add := func(name, ticket, expect string, at time.Time) {
		cases = append(cases, ticketCase{
			Name: name, NodeKey: node.Public().String(), Ticket: ticket, Now: at.Format(time.RFC3339Nano), Expect: expect,
			Caller: "order-agent", TargetCapability: "stock.query@^1", Agent: "stock-01", Admits: map[string]string{ok: ok}[expect],
		})
	}
	ticketTimes(add, doc)
	ticketForms(add, doc)
	add("another node's key", doc, "bad_seal", issued)
	cases[len(cases)-1].NodeKey = stranger.Public().String()
	return append(cases, admissions(doc)...)
}

func ticketTimes(add func(name, ticket, expect string, at time.Time), doc string) {
	expires := issued.Add(time.Minute)
	add("good", doc, ok, issued)
	add("at its last moment", doc, ok, expires)
	add("expired, within the tolerance of clocks", doc, ok, expires.Add(envelope.ClockTolerance))
	add("expired", doc, "expired", expires.Add(envelope.ClockTolerance+time.Millisecond))
	add("expired a day ago", doc, "expired", expires.Add(24*time.Hour))
	add("the agent's clock is behind, within the tolerance", doc, ok, issued.Add(-envelope.ClockTolerance))
	add("the agent's clock is too far behind", doc, "clock_skew", issued.Add(-envelope.ClockTolerance-time.Millisecond))
}

func ticketForms(add func(name, ticket, expect string, at time.Time), doc string) {
	body := doc[len(`{"body":`):strings.Index(doc, `,"sig":`)]
	sig := doc[strings.Index(doc, `"sig":"`)+len(`"sig":"`) : len(doc)-2]
	spaced := "{ " + body[1:]
	add("white space inside the body is signed", rawTicket(spaced), ok, issued)
	add("white space outside is not", " { \"sig\" : \""+sig+"\" ,\n\"body\":\t"+body+" } ", ok, issued)
	add("an unknown member of the body", rawTicket(body[:len(body)-1]+`,"x":[1]}`), ok, issued)
	add("body changed", strings.Replace(doc, "stock-01", "stock-02", 1), "bad_seal", issued)
	add("body written anew, equal in meaning", strings.Replace(doc, body, spaced, 1), "bad_seal", issued)
	add("signature changed", `{"body":`+body+`,"sig":"`+encode64(make([]byte, 64))+`"}`, "bad_seal", issued)
	add("signature of another domain", `{"body":`+body+`,"sig":"`+encode64(node.SignFor("agent-reach/3.0 root", []byte(body)))+`"}`, "bad_seal", issued)
	add("signature empty", `{"body":`+body+`,"sig":""}`, "bad_seal", issued)
	add("no signature", `{"body":`+body+`}`, "bad_seal", issued)
	add("signature is no base64", `{"body":`+body+`,"sig":"`+sig[:86]+`"}`, "malformed", issued)
	add("unknown member", `{"body":`+body+`,"sig":"`+sig+`","x":1}`, "malformed", issued)
	add("body twice", `{"body":`+body+`,"body":`+body+`,"sig":"`+sig+`"}`, "malformed", issued)
	add("a name twice in the body", rawTicket(body[:len(body)-1]+`,"agent":"stock-02"}`), "malformed", issued)
	add("null", "null", "bad_seal", issued)
	add("no JSON", "ticket", "malformed", issued)
	add("too large", `{"body":`+body+`,"sig":"`+sig+`"`+strings.Repeat(" ", envelope.MaxTicket)+`}`, "too_large", issued)
}

// admissions are good tickets shown with other calls than theirs.
func admissions(doc string) []ticketCase {
	var cases []ticketCase
	for _, a := range []struct{ name, caller, capability, agent, admits string }{
		{"for this call", "order-agent", "stock.query", "stock-01", ok},
		{"of another caller", "order-agent-2", "stock.query", "stock-01", "forbidden"},
		{"of a caller in other letters", "Order-agent", "stock.query", "stock-01", "forbidden"},
		{"for another capability", "order-agent", "stock.change", "stock-01", "forbidden"},
		{"for no capability", "order-agent", "", "stock-01", "forbidden"},
		{"for another agent", "order-agent", "stock.query", "stock-02", "forbidden"},
	} {
		cases = append(cases, ticketCase{
			Name: "shown " + a.name, NodeKey: node.Public().String(), Ticket: doc, Now: issued.Format(time.RFC3339Nano), Expect: ok,
			Caller: a.caller, TargetCapability: a.capability, Agent: a.agent, Admits: a.admits,
		})
	}
	probe := goodTicket()
	probe.Capability, probe.Caller = "", probe.Node
	return append(cases, ticketCase{
		Name: "probe", NodeKey: node.Public().String(), Ticket: ticketText(node, probe), Now: issued.Format(time.RFC3339Nano), Expect: ok,
		Caller: probe.Node, Agent: "stock-01", Admits: ok,
	})
}
