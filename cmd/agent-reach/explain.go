package main

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
)

func (p *program) explainCommand() *cobra.Command {
	var f messageFlags
	cmd := &cobra.Command{
		Use:   "explain CAPABILITY [JSON|-|@FILE]",
		Short: "Show where a request would go, and why not elsewhere",
		Long: `explain sends nothing to an agent. It shows who would be tried, in that order, with the four factors of each score, then who
is left out and why: state, version, permission, or a payload that does not fit.

` + payloadHelp,
		Example: `  agent-reach explain stock.query
  agent-reach explain stock.query '{"sku": 12}'
  agent-reach explain --agent inventory-query-agent`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var raw jsontext.Value
			if err := p.query(cmd, &f, args, "/v1/explain", &raw); err != nil {
				return err
			}
			if p.json {
				return p.printJSON(raw)
			}
			return p.showExplained(raw)
		},
	}
	f.add(cmd, true)
	return cmd
}

type explained struct {
	Agent   string         `json:"agent"`
	Node    string         `json:"node"`
	State   envelope.State `json:"state"`
	Version string         `json:"version"`
	Score   float64        `json:"score"`
	Factors struct {
		Success  float64 `json:"success"`
		Latency  float64 `json:"latency"`
		Load     float64 `json:"load"`
		Distance float64 `json:"distance"`
	} `json:"factors"`
	LeftOut *envelope.Error `json:"left_out"`
}

func (p *program) showExplained(raw jsontext.Value) error {
	var said struct {
		Candidates []explained `json:"candidates"`
		Mode       string      `json:"mode"`
		Chosen     string      `json:"chosen"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return unbelievable("the explanation cannot be read: %v", err)
	}
	rows := [][]string{{"", "AGENT", "STATE", "VERSION", "SCORE", "SUCCESS", "LATENCY", "LOAD", "DISTANCE", "LEFT OUT BECAUSE"}}
	tried := 0
	for i := range said.Candidates {
		if said.Candidates[i].LeftOut == nil {
			tried++
		}
		rows = append(rows, said.Candidates[i].row(tried))
	}
	if err := table(p.out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "\nselect_mode %s; it would go to %s\n", plain(said.Mode), cmp.Or(plain(said.Chosen), "nobody"))
	return err
}

// row shows the place in the order of trying, or - for who is left out.
func (e *explained) row(place int) []string {
	order, why := fmt.Sprint(place), ""
	if e.LeftOut != nil {
		order, why = "-", string(e.LeftOut.Code)+": "+e.LeftOut.Text
	}
	f := &e.Factors
	return []string{order, plain(e.Agent), plain(string(e.State)), plain(e.Version), score(e.Score),
		factor(f.Success), factor(f.Latency), factor(f.Load), factor(f.Distance), cell(why, 160)}
}
