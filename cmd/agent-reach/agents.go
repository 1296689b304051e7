package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
)

// agentView is what a node tells of an agent.
type agentView struct {
	AgentID       string             `json:"agent_id"`
	DisplayName   string             `json:"display_name"`
	NodeID        string             `json:"node_id"`
	State         envelope.State     `json:"state"`
	Reason        string             `json:"reason"`
	Since         envelope.Timestamp `json:"since_utc"`
	Score         float64            `json:"score"`
	PublicKey     envelope.PublicKey `json:"public_key"`
	VouchedBy     string             `json:"vouched_by"`
	EndpointType  string             `json:"endpoint_type"`
	HeartbeatSec  int                `json:"heartbeat_interval_sec"`
	MaxConcurrent int                `json:"max_concurrent_requests"`
	Load          struct {
		Running int `json:"running"`
		Waiting int `json:"waiting"`
	} `json:"load"`
	Capabilities []capabilityView `json:"capabilities"`
}

type capabilityView struct {
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Available    bool            `json:"available"`
	Description  string          `json:"description"`
	Tags         []string        `json:"tags"`
	Effect       envelope.Effect `json:"effect"`
	InputSchema  jsontext.Value  `json:"input_schema"`
	OutputSchema jsontext.Value  `json:"output_schema"`
}

func (p *program) agentsCommand() *cobra.Command {
	var f callerFlags
	var capability, state string
	cmd := &cobra.Command{
		Use:   "agents [ID]",
		Short: "List the agents that the node knows, or show one",
		Example: `  agent-reach agents
  agent-reach agents --capability stock.query --state available
  agent-reach agents inventory-query-agent --json | jq .capabilities[0].input_schema`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return p.showAgent(cmd.Context(), c, args[0])
			}
			return p.listAgents(cmd.Context(), c, filter(capability, state))
		},
	}
	f.addNode(cmd)
	cmd.Flags().StringVar(&capability, "capability", "", "only those that declare it; a version range may follow: stock.query@^1.2")
	cmd.Flags().StringVar(&state, "state", "", "pending, available, suspect, draining or unavailable")
	return cmd
}

func filter(capability, state string) url.Values {
	q := url.Values{"limit": {"1000"}}
	if capability != "" {
		q.Set("capability", capability)
	}
	if state != "" {
		q.Set("state", state)
	}
	return q
}

func (p *program) listAgents(ctx context.Context, c *client, query url.Values) error {
	rows := [][]string{{"AGENT", "STATE", "SCORE", "RUNNING", "WAITING", "ENDPOINT", "NODE", "CAPABILITIES"}}
	err := c.pages(ctx, "/v1/agents", query, func(raw jsontext.Value) error {
		if p.json {
			return p.printJSON(raw)
		}
		var a agentView
		if err := json.Unmarshal(raw, &a); err != nil {
			return unbelievable("an agent cannot be read: %v", err)
		}
		rows = append(rows, a.row())
		return nil
	})
	if err != nil || p.json {
		return err
	}
	if len(rows) == 1 {
		_, err := fmt.Fprintln(p.err, "no such agents")
		return err
	}
	return table(p.out, rows)
}

// pages calls take for every element of a list, page by page. Of each page's document it takes the one member that is a list.
func (c *client) pages(ctx context.Context, path string, query url.Values, take func(jsontext.Value) error) error {
	for {
		var page struct {
			Agents       []jsontext.Value `json:"agents"`
			Capabilities []jsontext.Value `json:"capabilities"`
			Next         string           `json:"next"`
		}
		if err := c.get(ctx, path, query, &page); err != nil {
			return err
		}
		for _, one := range append(page.Agents, page.Capabilities...) {
			if err := take(one); err != nil {
				return err
			}
		}
		if page.Next == "" || page.Next == query.Get("after") {
			return nil
		}
		query.Set("after", page.Next)
	}
}

func (a *agentView) row() []string {
	var names []string
	for _, c := range a.Capabilities {
		name := c.Name + "@" + c.Version
		if !c.Available {
			name += " (off)"
		}
		names = append(names, name)
	}
	state := string(a.State)
	if a.Reason != "" {
		state += ": " + a.Reason
	}
	return []string{plain(a.AgentID), cell(state, 60), score(a.Score), fmt.Sprint(a.Load.Running), fmt.Sprint(a.Load.Waiting),
		plain(a.EndpointType), short(a.NodeID), cell(strings.Join(names, ", "), 80)}
}

func (p *program) showAgent(ctx context.Context, c *client, id string) error {
	if err := envelope.CheckAgentID("agent id", id); err != nil {
		return err
	}
	var raw jsontext.Value
	if err := c.get(ctx, "/v1/agents/"+id, nil, &raw); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(raw)
	}
	var a agentView
	if err := json.Unmarshal(raw, &a); err != nil {
		return unbelievable("the agent cannot be read: %v", err)
	}
	if err := table(p.out, a.facts()); err != nil {
		return err
	}
	for i := range a.Capabilities {
		fmt.Fprintln(p.out)
		if err := table(p.out, a.Capabilities[i].facts()); err != nil {
			return err
		}
	}
	return nil
}

func (c *capabilityView) facts() [][]string {
	return present([][]string{
		{"capability", plain(c.Name) + " " + plain(c.Version)},
		{"available", yesNo(c.Available)},
		{"effect", plain(cmp.Or(string(c.Effect), string(envelope.Unsafe)))},
		{"description", cell(c.Description, 400)},
		{"tags", cell(strings.Join(c.Tags, ", "), 400)},
		{"input", plain(string(c.InputSchema))},
		{"output", plain(string(c.OutputSchema))},
	})
}

func (a *agentView) facts() [][]string {
	return present([][]string{
		{"agent", plain(a.AgentID)},
		{"name", cell(a.DisplayName, 120)},
		{"state", cell(string(a.State), 40) + a.since()},
		{"reason", cell(a.Reason, 160)},
		{"score", score(a.Score)},
		{"node", plain(a.NodeID)},
		{"endpoint", plain(a.EndpointType)},
		{"key", a.PublicKey.String()},
		{"vouched by", plain(a.VouchedBy)},
		{"load", fmt.Sprintf("%d running of %d, %d waiting", a.Load.Running, a.MaxConcurrent, a.Load.Waiting)},
		{"heartbeat", fmt.Sprintf("every %d s", a.HeartbeatSec)},
	})
}

// present leaves out the facts without a value.
func present(facts [][]string) [][]string {
	kept := facts[:0]
	for _, fact := range facts {
		if fact[1] != "" {
			kept = append(kept, fact)
		}
	}
	return kept
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// agent is what the node says of an agent, asked for once.
func (c *client) agent(ctx context.Context, id string) (agentView, error) {
	if a, ok := c.keys[id]; ok {
		return a, nil
	}
	var a agentView
	if err := c.get(ctx, "/v1/agents/"+id, nil, &a); err != nil {
		return agentView{}, err
	}
	c.keys[id] = a
	return a, nil
}

// since says when the state began; nothing for an agent that has left.
func (a *agentView) since() string {
	if a.Since.IsZero() {
		return ""
	}
	return " since " + a.Since.Local().Format("2006-01-02 15:04:05 MST")
}
