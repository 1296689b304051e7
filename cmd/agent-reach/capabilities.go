package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

func (p *program) capabilitiesCommand() *cobra.Command {
	var f callerFlags
	cmd := &cobra.Command{
		Use:   "capabilities",
		Short: "List what can be asked for",
		Long:  "capabilities lists every capability that some agent declares, with its versions and how many agents would get a call now.",
		Example: `  agent-reach capabilities
  agent-reach capabilities --json | jq -r .name`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			rows := [][]string{{"CAPABILITY", "VERSIONS", "AVAILABLE", "DESCRIPTION"}}
			err = c.pages(cmd.Context(), "/v1/capabilities", url.Values{"limit": {"1000"}}, func(raw jsontext.Value) error {
				if p.json {
					return p.printJSON(raw)
				}
				row, err := capabilityRow(raw)
				rows = append(rows, row)
				return err
			})
			if err != nil || p.json {
				return err
			}
			if len(rows) == 1 {
				_, err := fmt.Fprintln(p.err, "nobody declares a capability")
				return err
			}
			return table(p.out, rows)
		},
	}
	f.addNode(cmd)
	return cmd
}

func capabilityRow(raw jsontext.Value) ([]string, error) {
	var c struct {
		Name        string   `json:"name"`
		Versions    []string `json:"versions"`
		Agents      int      `json:"agents"`
		Available   int      `json:"available"`
		Description string   `json:"description"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, unbelievable("a capability cannot be read: %v", err)
	}
	return []string{plain(c.Name), cell(strings.Join(c.Versions, ", "), 40), fmt.Sprintf("%d of %d", c.Available, c.Agents), cell(c.Description, 100)}, nil
}
