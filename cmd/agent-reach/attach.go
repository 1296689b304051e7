package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/node"
)

func (p *program) attachCommand() *cobra.Command {
	var f callerFlags
	var config, keyFile string
	var remove bool
	cmd := &cobra.Command{
		Use:   "attach FILE",
		Short: "Attach an agent that has no key and no SDK: any web server that takes and returns JSON",
		Long: `attach registers an agent in the operator's name, from a descriptor in YAML or JSON with an endpoint of type http. The node
posts the bare payload of each call to the endpoint's url, takes bare JSON as the answer, and seals it with a key that it keeps for the
agent; the answers say so (vouched_by). The node remembers the agent until it is removed.

It is the operator's: it needs the node's own private key, named by --node-key, or found by the node's --config.`,
		Example: `  agent-reach attach weather.yaml --config config.yaml
  agent-reach attach weather.yaml --remove

  # weather.yaml
  agent_id: weather-01
  capabilities:
    - {name: weather.now, version: 1.0.0, effect: read, input_schema: {type: object, required: [city]}}
  endpoint: {type: http, url: "http://127.0.0.1:9000/weather"}`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := readAttachable(args[0])
			if err != nil {
				return err
			}
			key, err := operatorKey(config, keyFile)
			if err != nil {
				return err
			}
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			if err := c.becomeOperator(key); err != nil {
				return err
			}
			return p.attach(cmd.Context(), c, d, remove)
		},
	}
	f.addNode(cmd)
	cmd.Flags().StringVar(&config, "config", "", "the node's configuration, for node.private_key_path (default config.yaml, if it exists)")
	cmd.Flags().StringVar(&keyFile, "node-key", "", "the node's private key, instead of --config")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the agent that FILE describes")
	return cmd
}

func readAttachable(file string) (*envelope.Descriptor, error) {
	d, err := node.ReadDescriptor(file)
	switch {
	case err != nil:
		return nil, err
	case d.Endpoint.Type != envelope.HTTPEndpoint:
		return nil, local("%s: endpoint.type is %q; only http agents can be attached from a file", file, d.Endpoint.Type).
			WithHint("agents with an SDK attach by themselves, over a link")
	case !d.PublicKey.IsZero():
		return nil, local("%s: it has a public_key, but attach is for agents without one", file).
			WithHint("an agent with a key registers itself")
	}
	return d, nil
}

func operatorKey(config, keyFile string) (envelope.PrivateKey, error) {
	if keyFile == "" {
		cfg, err := node.LoadConfig(config, node.Overrides{})
		if err != nil {
			return envelope.PrivateKey{}, err
		}
		keyFile = cfg.Node.PrivateKeyPath
	}
	return envelope.LoadKey(keyFile, node.KeyPassphrase())
}

// becomeOperator makes the client speak in the node's own name.
func (c *client) becomeOperator(key envelope.PrivateKey) error {
	if own := key.Public(); own != c.node.Key {
		return local("the private key is that of node %s, but %s is node %s", own.Fingerprint(), c.base, c.node.ID).
			WithHint("name the key of the node you speak to: --node-key FILE, or --config FILE")
	}
	c.id, c.key = c.node.ID, key
	return nil
}

func (p *program) attach(ctx context.Context, c *client, d *envelope.Descriptor, remove bool) error {
	h := envelope.Header{MsgType: envelope.Register, ToNode: c.node.ID, TargetAgent: d.AgentID}
	method, path := http.MethodPost, "/v1/agents"
	payload, err := json.Marshal(d)
	if remove {
		h.MsgType, method, path, payload = envelope.Unregister, http.MethodDelete, "/v1/agents/"+d.AgentID, []byte("{}")
	}
	if err != nil {
		return err
	}
	e, err := c.sealed(h, payload)
	if err != nil {
		return err
	}
	resp, err := c.postOnce(ctx, method, path, e)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.answers(ctx, resp.Body, expected{e, c.node.ID}, func(part *envelope.Envelope) error {
		return p.showAttached(d, remove, part)
	})
}

func (p *program) showAttached(d *envelope.Descriptor, remove bool, part *envelope.Envelope) error {
	if p.json {
		return p.printJSON(viewPart(part, 0))
	}
	var said struct {
		State envelope.State `json:"state"`
	}
	if err := json.Unmarshal(part.Payload, &said); err != nil {
		return unbelievable("the node's answer cannot be read: %v", err)
	}
	what := "leaves"
	if !remove {
		what = "attached with " + plural(len(d.Capabilities), "capability", "capabilities")
	}
	_, err := fmt.Fprintf(p.out, "%s %s: %s\n", plain(d.AgentID), what, plain(string(said.State)))
	return err
}
