package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
)

func (p *program) broadcastCommand() *cobra.Command {
	var f messageFlags
	cmd := &cobra.Command{
		Use:   "broadcast CAPABILITY [JSON|-|@FILE]",
		Short: "Ask every available agent of a capability at once",
		Long: `broadcast asks all available agents of a capability and prints one line for each: what it answered, or why
it did not. It takes as long as the slowest of them.

` + payloadHelp + `

The exit code is 0 if all answered, 5 if an agent answered with an error, 4 if one did not answer.`,
		Example: `  agent-reach broadcast stock.query '{"sku": "SKU-88213"}'
  agent-reach broadcast cache.flush --timeout 5s --json`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.caller.connectAs(cmd.Context())
			if err != nil {
				return err
			}
			e, err := p.message(c, envelope.Broadcast, &f, args)
			if err != nil {
				return err
			}
			return p.broadcast(cmd.Context(), c, e)
		},
	}
	f.add(cmd, false)
	return cmd
}

// outcomeView is what became of a broadcast at one agent, for --json.
type outcomeView struct {
	Agent      string         `json:"agent"`
	OK         bool           `json:"ok"`
	DurationMS float64        `json:"duration_ms"`
	Parts      []partView     `json:"parts,omitempty"`
	Error      jsontext.Value `json:"error,omitzero"`
	failed     error
}

// outcomeDocument is the same, as the node says it.
type outcomeDocument struct {
	Agent      string           `json:"agent"`
	DurationMS float64          `json:"duration_ms"`
	Response   jsontext.Value   `json:"response"`
	Responses  []jsontext.Value `json:"responses"`
	Error      jsontext.Value   `json:"error"`
}

func (p *program) broadcast(ctx context.Context, c *client, e *envelope.Envelope) error {
	var said struct {
		Outcomes []outcomeDocument `json:"outcomes"`
	}
	err := c.ask(ctx, e, func(part *envelope.Envelope) error {
		if err := json.Unmarshal(part.Payload, &said); err != nil {
			return unbelievable("the outcomes cannot be read: %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	outcomes := make([]outcomeView, len(said.Outcomes))
	for i := range said.Outcomes {
		outcomes[i] = c.outcome(ctx, e, &said.Outcomes[i])
	}
	if err := p.showOutcomes(outcomes); err != nil {
		return err
	}
	return worst(outcomes)
}

// outcome proves one agent's answer.
func (c *client) outcome(ctx context.Context, e *envelope.Envelope, d *outcomeDocument) outcomeView {
	out := outcomeView{Agent: d.Agent, OK: true, DurationMS: d.DurationMS}
	docs := d.Responses
	if d.Response != nil {
		docs = append(docs, d.Response)
	}
	for _, doc := range docs {
		part, err := c.open(ctx, doc, expected{e, d.Agent})
		if err != nil {
			return out.fail(err)
		}
		out.Parts = append(out.Parts, viewPart(part, 0))
	}
	if len(docs) == 0 {
		return out.fail(fromNode(envelope.UnmarshalError(d.Error)))
	}
	return out
}

func (o outcomeView) fail(err error) outcomeView {
	o.OK, o.failed = false, err
	o.Error = envelope.MarshalError(envelope.AsError(err))
	return o
}

func (p *program) showOutcomes(outcomes []outcomeView) error {
	if p.json {
		for _, o := range outcomes {
			if err := p.printJSON(o); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"AGENT", "AFTER", "OUTCOME", "ANSWER"}}
	for _, o := range outcomes {
		rows = append(rows, []string{plain(o.Agent), milliseconds(o.DurationMS), o.word(), cell(o.answer(), 100)})
	}
	return table(p.out, rows)
}

func (o *outcomeView) word() string {
	if o.failed == nil {
		return "ok"
	}
	return plain(string(envelope.AsError(o.failed).Code))
}

func (o *outcomeView) answer() string {
	if o.failed != nil {
		return envelope.AsError(o.failed).Text
	}
	var parts []string
	for _, part := range o.Parts {
		parts = append(parts, string(part.Payload))
	}
	return strings.Join(parts, " ")
}

// worst is the failure that decides the exit code; nil if all answered.
func worst(outcomes []outcomeView) error {
	failed, exit := 0, exitOK
	for _, o := range outcomes {
		if o.failed == nil {
			continue
		}
		failed++
		if exit != exitNoAnswer {
			exit = exitNoAnswer
			if errors.Is(o.failed, envelope.AgentFailed) {
				exit = exitAgent
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return &quiet{exit, fmt.Sprintf("%d of %s failed", failed, plural(len(outcomes), "agent", "agents"))}
}
