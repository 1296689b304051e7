package main

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
)

func (p *program) callCommand() *cobra.Command {
	var f messageFlags
	cmd := &cobra.Command{
		Use:   "call CAPABILITY [JSON|-|@FILE]",
		Short: "Ask for a capability, or an agent, and print the answer",
		Long: `call sends one request. The node chooses an agent that offers the capability and can answer now; the
answer's seal is checked. The payload of the answer goes to standard output, who answered to standard error.

CAPABILITY may carry a version range: contract.summarize@^1.2
` + payloadHelp + `

The caller is an agent of its own, with a key; on a node that does not know it, it registers by itself.`,
		Example: `  agent-reach call stock.query '{"sku": "SKU-88213"}'
  agent-reach call contract.clause_check @contract.json --timeout 2m --priority 2
  agent-reach call --agent inventory-query-agent '{"sku": "SKU-88213"}'
  echo '{"sku": "SKU-88213"}' | agent-reach call stock.query - --json | jq .payload`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.caller.connectAs(cmd.Context())
			if err != nil {
				return err
			}
			e, err := p.message(c, envelope.Request, &f, args)
			if err != nil {
				return err
			}
			return c.ask(cmd.Context(), e, func(part *envelope.Envelope) error {
				return p.showPart(part, time.Since(c.began))
			})
		},
	}
	f.add(cmd, true)
	return cmd
}

// partView is one part of an answer, for --json.
type partView struct {
	Agent      string         `json:"agent"`
	Payload    jsontext.Value `json:"payload,omitzero"`
	MsgID      string         `json:"msg_id"` // the request's
	TraceID    string         `json:"trace_id"`
	VouchedBy  string         `json:"vouched_by,omitzero"`
	DurationMS float64        `json:"duration_ms,omitzero"`
}

func viewPart(part *envelope.Envelope, after time.Duration) partView {
	h := &part.Header
	return partView{h.SourceAgent, part.Payload, h.InReplyTo, h.TraceID, h.VouchedBy, float64(after.Microseconds()) / 1000}
}

func (p *program) showPart(part *envelope.Envelope, after time.Duration) error {
	if p.json {
		return p.printJSON(viewPart(part, after))
	}
	if len(part.Payload) > 0 {
		if _, err := fmt.Fprintln(p.out, indented(part.Payload)); err != nil {
			return err
		}
	}
	h := &part.Header
	vouched := ""
	if h.VouchedBy != "" {
		vouched = ", sealed in its name by node " + short(h.VouchedBy)
	}
	_, err := fmt.Fprintf(p.err, "answered by %s after %s%s (trace %s)\n", plain(h.SourceAgent), took(after), vouched, plain(h.TraceID))
	return err
}
