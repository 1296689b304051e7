package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/node"
)

func (p *program) runCommand() *cobra.Command {
	var file string
	var over node.Overrides
	cmd := &cobra.Command{
		Use:   "agent-reach [flags]",
		Short: "Run a node of the network in which agents find and call each other",
		Long: `agent-reach runs a node: agents attach to it and declare what they can do, callers ask for a
capability, and the node carries the signed message to an agent that can do it now.

Without --config it reads config.yaml in the working folder if there is one; every key has a default,
so a node starts with no file at all. It runs until SIGINT or SIGTERM, then lets running calls finish.

The subcommands speak to a running node.

` + exitHelp,
		Example: `  agent-reach --role router_and_registry --config config.yaml
  agent-reach call stock.query '{"sku": "SKU-88213"}'
  agent-reach explain stock.query
  agent-reach config check config.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := node.LoadConfig(file, over)
			if err != nil {
				return err
			}
			n, err := node.New(cfg, programVersion(), cfg.Logging.Logger(os.Stderr))
			if err != nil {
				return err
			}
			return n.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default config.yaml, if it exists)")
	cmd.Flags().StringVar(&over.Role, "role", "", "registry, router or router_and_registry; overrides node.role")
	return cmd
}
