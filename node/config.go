package node

import (
	"os"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Config is config.yaml, field by field. Defaults gives every default; a key that the file leaves out keeps it. It holds names
// of files and never a secret, so it may be printed.
type Config struct {
	Node     NodeConfig     `yaml:"node"`
	Registry RegistryConfig `yaml:"registry"`
	Routing  RoutingConfig  `yaml:"routing"`
	Auth     AuthConfig     `yaml:"auth"`
	Logging  LoggingConfig  `yaml:"logging"`

	// File is the file that was read; empty: none, all is default.
	File string `yaml:"-"`
	// Bootstrap are the members that node.bootstrap_file lists.
	Bootstrap []Member `yaml:"-"`
}

// NodeConfig is the section node: what this process is and how much it takes on.
type NodeConfig struct {
	// Role is registry (agents attach here), router (calls pass here, no agents attach) or router_and_registry.
	// Default router_and_registry. The flag --role overrides it.
	Role Role `yaml:"role"`

	// ListenAddr is host:port of the one port: HTTP and WebSocket on TCP, QUIC and gossip on UDP. Default 0.0.0.0:7981, every
	// interface; 127.0.0.1 closes the node to other machines. Port 0 takes any free one.
	ListenAddr string `yaml:"listen_addr"`

	// GossipPeers are host:port of some nodes of the network to join. Default none: a network of one. Two or three are enough,
	// more make the first contact surer.
	GossipPeers []string `yaml:"gossip_peers"`

	// PrivateKeyPath is the node's Ed25519 key, PKCS#8 PEM or OpenSSH; made on the first start. Default
	// ./keys/node_ed25519.pem. The node's id is the key's fingerprint: another key is another node. An encrypted key's
	// passphrase is read from AGENT_REACH_KEY_PASSPHRASE.
	PrivateKeyPath string `yaml:"private_key_path"`

	// BootstrapFile lists the cluster's first members with their keys. Default bootstrap.json beside the config file, which may
	// be absent; a file named here must exist, and "" reads none.
	BootstrapFile string `yaml:"bootstrap_file"`

	// DrainTimeoutSec is how many seconds calls that run may still take when the node stops. Default 30. Raising it lets long
	// calls finish, lowering it makes restarts quicker; 0 cuts them at once.
	DrainTimeoutSec Seconds `yaml:"drain_timeout_sec"`

	// MaxPayloadBytes is the largest payload of a message, in bytes. Default 4194304 (4 MiB). Raising it costs that much memory
	// for each message under way; senders of larger payloads get too_large.
	MaxPayloadBytes int `yaml:"max_payload_bytes"`

	// MaxConnections is how many TCP connections may be open at once, links among them. Default 16384. Raising it needs as many
	// file descriptors (ulimit -n); a connection above it is closed at once.
	MaxConnections int `yaml:"max_connections"`

	// MaxLinks is how many links may be open at once; one for each agent that dials in. Default 12288. Raising it costs about
	// 40 KiB for each link; a link above it is refused with overloaded.
	MaxLinks int `yaml:"max_links"`

	// MaxAgents is how many agents may be registered here at once. Default 100000. Raising it costs about 4 KiB for each agent
	// and the size of its schemas; a registration above it is refused with overloaded.
	MaxAgents int `yaml:"max_agents"`
}

// RegistryConfig is the section registry: how long a registration lives without a heartbeat.
type RegistryConfig struct {
	// HeartbeatTimeoutSec is the silence in seconds after which an agent is unavailable. Default 90. Raising it forgives
	// slow agents, lowering it finds dead ones sooner. Agents must beat at least twice in this time.
	HeartbeatTimeoutSec Seconds `yaml:"heartbeat_timeout_sec"`

	// CapabilityTTLSec is the silence in seconds after which an agent is removed. Default 180; at least
	// heartbeat_timeout_sec. Raising it keeps the entry longer for an agent that comes back.
	CapabilityTTLSec Seconds `yaml:"capability_ttl_sec"`

	// PruneIntervalSec is the time in seconds between two searches for silent agents. Default 30; at most capability_ttl_sec.
	// Lowering it makes both limits above more exact, for a little more work.
	PruneIntervalSec Seconds `yaml:"prune_interval_sec"`
}

// RoutingConfig is the section routing: which candidate gets a call, and what happens when it cannot be reached.
type RoutingConfig struct {
	// ScoreWeights weigh success, latency, load and network distance in a path's score. Default [4, 3, 2, 1]. Only their
	// proportions count; 0 ignores a factor.
	ScoreWeights [4]float64 `yaml:"score_weights"`

	// SelectMode is how one of the best candidates is taken: best (always the first), weighted_random (in proportion to
	// score), round_robin (in turn) or hash (by conversation_id, so that a conversation stays with its agent).
	// Default weighted_random.
	SelectMode string `yaml:"select_mode"`

	// SelectTopN is among how many of the best candidates the draw is. Default 3. Raising it spreads calls wider, lowering it
	// keeps to the best; best and hash do not use it.
	SelectTopN int `yaml:"select_top_n"`

	// RetryOnFailure tries the next candidate when a call was certainly not run. Default true; false hands the caller
	// the first failure.
	RetryOnFailure bool `yaml:"retry_on_failure"`

	// MaxRetryCount is how many further candidates a call may try, over all nodes together. Default 2. Raising it survives
	// more dead agents at once, and prolongs the worst call.
	MaxRetryCount int `yaml:"max_retry_count"`

	// ConnectionPoolSize is how many connections may be open to one HTTP agent. Default 64. Raising it allows more calls at once
	// to agents that take them, lowering it protects agents that do not.
	ConnectionPoolSize int `yaml:"connection_pool_size"`

	// QueuePerAgent is how many calls may wait for one agent that is at its own limit. Default 256. Raising it turns refusals
	// into waiting (and costs their payloads' memory); 0 refuses with overloaded at once.
	QueuePerAgent int `yaml:"queue_per_agent"`

	// MaxHops is how many nodes a call may pass. Default 4. Two are the rule; more only end a circle later.
	MaxHops int `yaml:"max_hops"`
}

// AuthConfig is the section auth: who is believed, and who may call what.
type AuthConfig struct {
	// PublicKeyStore is the JSON file of the agents' known public keys; the folder it stands in keeps the node's other key files
	// too. Default ./keys/public_keys.json. Read again when it changes.
	PublicKeyStore string `yaml:"public_key_store"`

	// RequireSignature refuses messages without a seal. Default true. False accepts unsealed messages from anybody in anybody's
	// name, and is for experiments on one machine; a seal that is there is checked all the same.
	RequireSignature bool `yaml:"require_signature"`

	// Enrollment is first_use (the first key that registers an id keeps it and is written to public_key_store) or keystore (only
	// keys that the administrator put there may register). Default first_use.
	Enrollment string `yaml:"enrollment"`

	// PermissionsFile is the table of who may call what. Default "", no table: open to callers on this machine, closed to
	// others. With a file, whatever no rule allows is denied. Read again when it changes and on SIGHUP.
	PermissionsFile string `yaml:"permissions_file"`
}

// LoggingConfig is the section logging.
type LoggingConfig struct {
	// Level is the least level that is logged: debug, info, warn or error. Default info. debug writes every step of every call.
	Level string `yaml:"level"`

	// AccessLogEnabled writes one line for each finished call to standard output. Default true. Turning it off saves a few
	// microseconds a call.
	AccessLogEnabled bool `yaml:"access_log_enabled"`

	// Format is text, json, or auto: text on a terminal, json otherwise. Default auto.
	Format string `yaml:"format"`
}

// Defaults is the configuration of a node that is told nothing.
func Defaults() Config {
	return Config{
		Node: NodeConfig{
			Role:            RouterAndRegistry,
			ListenAddr:      "0.0.0.0:7981",
			PrivateKeyPath:  "./keys/node_ed25519.pem",
			BootstrapFile:   defaultBootstrapFile,
			DrainTimeoutSec: 30,
			MaxPayloadBytes: envelope.DefaultMaxPayload,
			MaxConnections:  16384,
			MaxLinks:        12288,
			MaxAgents:       100_000,
		},
		Registry: RegistryConfig{HeartbeatTimeoutSec: 90, CapabilityTTLSec: 180, PruneIntervalSec: 30},
		Routing: RoutingConfig{
			ScoreWeights:       [4]float64{4, 3, 2, 1},
			SelectMode:         "weighted_random",
			SelectTopN:         3,
			RetryOnFailure:     true,
			MaxRetryCount:      2,
			ConnectionPoolSize: 64,
			QueuePerAgent:      256,
			MaxHops:            4,
		},
		Auth:    AuthConfig{PublicKeyStore: "./keys/public_keys.json", RequireSignature: true, Enrollment: FirstUse},
		Logging: LoggingConfig{Level: "info", AccessLogEnabled: true, Format: "auto"},
	}
}

// The two values of auth.enrollment.
const (
	FirstUse     = "first_use"
	KeyStoreOnly = "keystore"
)

// Role is what a node does for the network.
type Role string

// The roles.
const (
	RegistryOnly      Role = "registry"
	RouterOnly        Role = "router"
	RouterAndRegistry Role = "router_and_registry"
)

// TakesAgents reports whether agents may attach to a node of this role.
func (r Role) TakesAgents() bool { return r != RouterOnly }

// CarriesCalls reports whether a node of this role takes calls from callers.
func (r Role) CarriesCalls() bool { return r != RegistryOnly }

// Seconds is a whole number of seconds, as the keys ending in _sec are written.
type Seconds int

// Duration is s for package time.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Members are the first nodes to talk to: those of the bootstrap file, and the gossip_peers that it does not list, of which only
// the address is known. The node itself may be among them.
func (c *Config) Members() []Member {
	members := append([]Member(nil), c.Bootstrap...)
	known := make(map[string]bool)
	for _, m := range members {
		known[m.Address] = true
	}
	for _, addr := range c.Node.GossipPeers {
		if !known[addr] {
			known[addr] = true
			members = append(members, Member{Address: addr})
		}
	}
	return members
}

// KeyPassphrase is the passphrase of encrypted key files, from the environment variable AGENT_REACH_KEY_PASSPHRASE; nil if unset.
// It is the only environment variable that a node reads.
func KeyPassphrase() []byte {
	if s := os.Getenv("AGENT_REACH_KEY_PASSPHRASE"); s != "" {
		return []byte(s)
	}
	return nil
}
