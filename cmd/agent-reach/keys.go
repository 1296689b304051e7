package main

import (
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/node"
)

func (p *program) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make and show Ed25519 key files",
		Long: `keys makes the key files of agents, nodes and callers, and shows the public half of those that exist.

With AGENT_REACH_KEY_PASSPHRASE set, a new key is encrypted with it (OpenSSH format), and an encrypted one is opened with it.`,
		SuggestionsMinimumDistance: 2,
		Example:                    "  agent-reach keys new ./keys/agent.pem\n  agent-reach keys show ./keys/agent.pem",
		Args:                       onlyCommands,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "new FILE",
		Short:   "Make a new private key, readable by its owner only; an existing file is left alone",
		Example: "  agent-reach keys new ./keys/inventory_agent_ed25519.pem",
		Args:    arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			key := envelope.GenerateKey()
			if err := envelope.CreateKey(args[0], key, node.KeyPassphrase()); err != nil {
				return err
			}
			return p.showKey(args[0], key.Public())
		},
	}, &cobra.Command{
		Use:     "show FILE",
		Short:   "Print the public key and the fingerprint of a private key file (PKCS#8 PEM or OpenSSH)",
		Example: "  agent-reach keys show ./keys/node_ed25519.pem\n  agent-reach keys show ~/.ssh/id_ed25519 --json",
		Args:    arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := envelope.LoadKey(args[0], node.KeyPassphrase())
			if err != nil {
				return err
			}
			return p.showKey(args[0], key.Public())
		},
	})
	return cmd
}

func (p *program) showKey(file string, key envelope.PublicKey) error {
	if p.json {
		return p.printJSON(map[string]string{"file": file, "public_key": key.String(), "fingerprint": key.Fingerprint()})
	}
	return table(p.out, [][]string{
		{"file", plain(file)},
		{"public key", key.String()},
		{"fingerprint", key.Fingerprint()},
	})
}
