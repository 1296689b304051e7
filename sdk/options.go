package sdk

import (
	"cmp"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// NodeVariable names the environment variable with the nodes' addresses, comma separated, for agents made without WithNode.
const NodeVariable = "AGENT_REACH_NODE"

// DefaultNode is the node where neither WithNode nor NodeVariable names one.
const DefaultNode = "http://127.0.0.1:7981"

// DefaultDrain is how long a leaving agent lets its running handlers finish.
const DefaultDrain = 30 * time.Second

// Option sets one thing of an Agent; its error is New's.
type Option func(*config) error

type config struct {
	nodes       []string // base URLs without a slash at the end
	key         envelope.PrivateKey
	keyFile     string
	passphrase  []byte
	displayName string
	endpoint    envelope.Endpoint
	heartbeat   int // seconds
	limit       int
	load        func() float64
	maxPayload  int
	drain       time.Duration
	log         *slog.Logger
}

// WithNode adds nodes, tried in this order: "http://10.0.0.5:7981", "https://…" or "10.0.0.5:7981". Default: NodeVariable, then DefaultNode.
func WithNode(addresses ...string) Option {
	return func(c *config) error {
		for _, a := range addresses {
			node, err := nodeURL(a)
			if err != nil {
				return err
			}
			c.nodes = append(c.nodes, node)
		}
		return nil
	}
}

// WithKeyFile reads the agent's private key from a PEM file (PKCS#8 or OpenSSH). A file that does not exist is made, with a new key and mode 0600.
// Default: a key that is forgotten with the process; where a node pins the first key of an id, that id is then lost until the
// administrator removes it.
func WithKeyFile(path string) Option {
	return func(c *config) error { c.keyFile = path; return nil }
}

// WithPassphrase opens, or makes, an encrypted key file.
func WithPassphrase(passphrase []byte) Option {
	return func(c *config) error { c.passphrase = passphrase; return nil }
}

// WithKey gives the agent's private key itself.
func WithKey(key envelope.PrivateKey) Option {
	return func(c *config) error { c.key = key; return nil }
}

// WithDisplayName sets the name that people read.
func WithDisplayName(name string) Option {
	return func(c *config) error { c.displayName = name; return nil }
}

// WithEndpoint says how the agent is reached. Default: over the link that it dials itself, for which it needs no port. With
// envelope.HTTPEndpoint the node and direct callers POST to URL: serve Agent.HTTPHandler there.
func WithEndpoint(e envelope.Endpoint) Option {
	return func(c *config) error { c.endpoint = e; return nil }
}

// WithHeartbeat sets the time between heartbeats, in whole seconds, at least one. Default 30 s. The node refuses more than half of its
// heartbeat_timeout_sec.
func WithHeartbeat(every time.Duration) Option {
	return func(c *config) error {
		c.heartbeat = int(every / time.Second)
		if c.heartbeat < 1 {
			return envelope.Errorf(envelope.Malformed, envelope.StepConfig, "a heartbeat every %v; at least a second must lie between two", every)
		}
		return nil
	}
}

// WithMaxConcurrent sets how many requests the agent runs at once. Default 10. The node queues what is beyond.
func WithMaxConcurrent(n int) Option {
	return func(c *config) error { c.limit = n; return nil }
}

// WithLoad sets what heartbeats report as load, in requests: running and queued. Default: what runs now.
func WithLoad(load func() float64) Option {
	return func(c *config) error { c.load = load; return nil }
}

// WithMaxPayload sets the largest payload taken, in bytes. Default 4 MiB.
func WithMaxPayload(bytes int) Option {
	return func(c *config) error { c.maxPayload = bytes; return nil }
}

// WithDrain sets how long a leaving agent lets its running handlers finish. Default 30 s.
func WithDrain(d time.Duration) Option {
	return func(c *config) error { c.drain = d; return nil }
}

// WithLogger sets where the agent logs. Default slog.Default().
func WithLogger(log *slog.Logger) Option {
	return func(c *config) error { c.log = log; return nil }
}

func newConfig(options []Option) (*config, error) {
	c := &config{drain: DefaultDrain}
	for _, o := range options {
		if err := o(c); err != nil {
			return nil, err
		}
	}
	if len(c.nodes) == 0 {
		named := strings.Split(cmp.Or(os.Getenv(NodeVariable), DefaultNode), ",")
		if err := WithNode(named...)(c); err != nil {
			return nil, err
		}
	}
	c.heartbeat = cmp.Or(c.heartbeat, envelope.DefaultHeartbeatSec)
	c.limit = cmp.Or(c.limit, envelope.DefaultMaxConcurrent)
	c.maxPayload = cmp.Or(c.maxPayload, envelope.DefaultMaxPayload)
	c.log = cmp.Or(c.log, slog.Default())
	if c.maxPayload < 0 || c.drain < 0 {
		return nil, envelope.Errorf(envelope.Malformed, envelope.StepConfig, "the payload limit and the drain time must not be negative")
	}
	return c, c.loadKey()
}

func (c *config) loadKey() error {
	switch {
	case !c.key.IsZero():
		return nil
	case c.keyFile == "":
		c.key = envelope.GenerateKey()
		return nil
	}
	key, created, err := envelope.LoadOrCreateKey(c.keyFile, c.passphrase)
	if err != nil {
		return err
	}
	if created {
		c.log.Info("private key created", "file", c.keyFile)
	}
	c.key = key
	return nil
}

func nodeURL(address string) (string, error) {
	address = strings.TrimSpace(address)
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", envelope.Errorf(envelope.Malformed, envelope.StepConfig, "node address %q; it must be like http://127.0.0.1:7981", address)
	}
	return strings.TrimRight(u.String(), "/"), nil
}
