package main

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
)

func (p *program) lookupCommand() *cobra.Command {
	var f messageFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "lookup CAPABILITY [JSON|-|@FILE]",
		Short: "Find agents to call direct, with their addresses, keys and tickets",
		Long: `lookup prints the ranked agents that the caller may call without the hop over the node: their
endpoint, score and, with --json, public key and ticket. Agents that are reached over a link or prefer_proxy are only counted.

` + payloadHelp,
		Example: `  agent-reach lookup stock.query
  agent-reach lookup contract.summarize@^1.2 --limit 10 --json`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var raw jsontext.Value
			if err := p.query(cmd, &f, args, fmt.Sprintf("/v1/lookup?limit=%d", limit), &raw); err != nil {
				return err
			}
			if p.json {
				return p.printJSON(raw)
			}
			return p.showLookup(raw)
		},
	}
	f.add(cmd, true)
	cmd.Flags().IntVar(&limit, "limit", 3, "how many candidates, 1 to 32")
	return cmd
}

// query posts the request that the arguments describe to a path that answers in JSON of the node's own.
func (p *program) query(cmd *cobra.Command, f *messageFlags, args []string, path string, into any) error {
	c, err := f.caller.connectAs(cmd.Context())
	if err != nil {
		return err
	}
	e, err := p.message(c, envelope.Request, f, args)
	if err != nil {
		return err
	}
	resp, err := c.post(cmd.Context(), path, e)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.read(resp, into)
}

func (p *program) showLookup(raw jsontext.Value) error {
	var said struct {
		Candidates []struct {
			Agent    string            `json:"agent"`
			Version  string            `json:"version"`
			Score    float64           `json:"score"`
			Endpoint envelope.Endpoint `json:"endpoint"`
		} `json:"candidates"`
		NotDirect int `json:"not_direct"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return unbelievable("the candidates cannot be read: %v", err)
	}
	rows := [][]string{{"AGENT", "VERSION", "SCORE", "ENDPOINT"}}
	for _, c := range said.Candidates {
		rows = append(rows, []string{plain(c.Agent), plain(c.Version), score(c.Score), cell(c.Endpoint.URL, 120)})
	}
	if len(said.Candidates) > 0 {
		if err := table(p.out, rows); err != nil {
			return err
		}
	}
	if said.NotDirect > 0 {
		fmt.Fprintf(p.err, "%s more, reached through the node only\n", plural(said.NotDirect, "agent", "agents"))
	}
	return nil
}
