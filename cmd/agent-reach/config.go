package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/node"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                        "config",
		Short:                      "Check a node's configuration",
		Example:                    "  agent-reach config check config.yaml",
		SuggestionsMinimumDistance: 2,
		Args:                       onlyCommands,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check [FILE]",
		Short: "Read a configuration and every file that it names, and say what is wrong",
		Long: `check reads a configuration as a node does at its start, with the bootstrap file, the permission table and the private key if they
exist, and prints every mistake with file, line, key and what would be right. It changes nothing. Without FILE it reads config.yaml.`,
		Example: "  agent-reach config check config.yaml",
		Args:    arguments(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return p.checkConfig(append(args, "")[0])
		},
	})
	return cmd
}

func (p *program) checkConfig(file string) error {
	cfg, err := node.LoadConfig(file, node.Overrides{})
	if err != nil {
		return err
	}
	table, err := node.OpenPermissions(cfg.Auth.PermissionsFile)
	if err != nil {
		return err
	}
	key, err := presentKey(cfg.Node.PrivateKeyPath)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{
			"ok": true, "file": cfg.File, "role": cfg.Node.Role, "listen_addr": cfg.Node.ListenAddr, "members": len(cfg.Members()),
			"permissions": table.String(), "node_id": key,
		})
	}
	_, err = fmt.Fprintf(p.out, "%s: ok\n  role         %s\n  listens on   %s\n  peers        %d\n  permissions  %s\n  node id      %s\n",
		cmp.Or(cfg.File, "no file, all defaults"), cfg.Node.Role, cfg.Node.ListenAddr, len(cfg.Members()), table,
		cmp.Or(key, "made at the first start, with "+cfg.Node.PrivateKeyPath))
	return err
}

// presentKey is the fingerprint of the key in a file, empty if there is no such file yet.
func presentKey(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	key, err := envelope.LoadKey(path, node.KeyPassphrase())
	if err != nil {
		return "", err
	}
	return key.Public().Fingerprint(), nil
}
