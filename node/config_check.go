package node

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
)

const (
	day      = 86400 // seconds
	minBytes = 1024
	maxBytes = 256 << 20
)

// checkConfig notes every value that is impossible by itself or beside another.
func checkConfig(d *document, c *Config) {
	checkNode(d, &c.Node)
	checkRegistry(d, &c.Registry)
	checkRouting(d, &c.Routing)
	d.oneOf("auth.enrollment", c.Auth.Enrollment, FirstUse, KeyStoreOnly)
	d.oneOf("logging.level", c.Logging.Level, "debug", "info", "warn", "error")
	d.oneOf("logging.format", c.Logging.Format, "auto", "text", "json")
	d.namesFile("auth.public_key_store", c.Auth.PublicKeyStore)
}

func checkNode(d *document, n *NodeConfig) {
	d.oneOf("node.role", string(n.Role), string(RegistryOnly), string(RouterOnly), string(RouterAndRegistry))
	if err := checkAddr(n.ListenAddr, true); err != nil {
		d.refuse("node.listen_addr", `%v; write "host:port", such as "0.0.0.0:7981" or "127.0.0.1:7981"`, err)
	}
	for i, addr := range n.GossipPeers {
		if err := checkAddr(addr, false); err != nil {
			d.refuse(fmt.Sprintf("node.gossip_peers[%d]", i), `%v; write "host:port", such as "192.168.1.10:7981"`, err)
		}
	}
	d.namesFile("node.private_key_path", n.PrivateKeyPath)
	d.between("node.drain_timeout_sec", int(n.DrainTimeoutSec), 0, 3600)
	d.between("node.max_payload_bytes", n.MaxPayloadBytes, minBytes, maxBytes)
	d.between("node.max_connections", n.MaxConnections, 1, 1_000_000)
	d.between("node.max_links", n.MaxLinks, 1, 1_000_000)
	d.between("node.max_agents", n.MaxAgents, 1, 10_000_000)
	if n.MaxLinks > n.MaxConnections {
		d.refuse(d.culprit("node.max_links", "node.max_connections"),
			"max_links (%d) is over max_connections (%d), but every link is a connection: lower the first or raise the second",
			n.MaxLinks, n.MaxConnections)
	}
}

func checkRegistry(d *document, r *RegistryConfig) {
	d.between("registry.heartbeat_timeout_sec", int(r.HeartbeatTimeoutSec), 1, day)
	d.between("registry.capability_ttl_sec", int(r.CapabilityTTLSec), 1, 7*day)
	d.between("registry.prune_interval_sec", int(r.PruneIntervalSec), 1, day)
	if r.CapabilityTTLSec < r.HeartbeatTimeoutSec {
		d.refuse(d.culprit("registry.capability_ttl_sec", "registry.heartbeat_timeout_sec"),
			"capability_ttl_sec (%d) is under heartbeat_timeout_sec (%d): an agent would be removed before it is unavailable; make it %d or more",
			r.CapabilityTTLSec, r.HeartbeatTimeoutSec, r.HeartbeatTimeoutSec)
	}
	if r.PruneIntervalSec > r.CapabilityTTLSec {
		d.refuse(d.culprit("registry.prune_interval_sec", "registry.capability_ttl_sec"),
			"prune_interval_sec (%d) is over capability_ttl_sec (%d): silent agents would stay that much longer; make it %d or less",
			r.PruneIntervalSec, r.CapabilityTTLSec, r.CapabilityTTLSec)
	}
}

func checkRouting(d *document, r *RoutingConfig) {
	const weights = "routing.score_weights"
	sum := 0.0
	for i, w := range r.ScoreWeights {
		sum += w
		if !(w >= 0 && w <= 1e6) {
			d.refuse(fmt.Sprintf("%s[%d]", weights, i), "%v is no weight; it has to be 0 to 1000000", w)
		}
	}
	if sum == 0 || math.IsNaN(sum) {
		d.refuse(weights, "no weight is over 0: every path would score the same; the default is [4, 3, 2, 1]")
	}
	d.oneOf("routing.select_mode", r.SelectMode, "best", "weighted_random", "round_robin", "hash")
	d.between("routing.select_top_n", r.SelectTopN, 1, 1000)
	d.between("routing.max_retry_count", r.MaxRetryCount, 0, 10)
	d.between("routing.connection_pool_size", r.ConnectionPoolSize, 1, 10_000)
	d.between("routing.queue_per_agent", r.QueuePerAgent, 0, 100_000)
	d.between("routing.max_hops", r.MaxHops, 1, 16)
}

func (d *document) oneOf(path, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	advice := ""
	if near := nearest(value, allowed); near != "" {
		advice = fmt.Sprintf("; did you mean %s?", near)
	}
	if !d.set(path) && path == "node.role" { // the only value that a flag sets
		d.mistakes = append(d.mistakes, mistake{text: fmt.Sprintf("--role is %q; it has to be one of %s%s", value, list(allowed), advice)})
		return
	}
	d.refuse(path, "%q is none of %s%s", value, list(allowed), advice)
}

func (d *document) between(path string, value, least, most int) {
	if value < least || value > most {
		d.refuse(path, "%d is out of range; it has to be %d to %d", value, least, most)
	}
}

func (d *document) namesFile(path, value string) {
	if value == "" {
		d.refuse(path, "names no file; leave the key out for the default")
	}
}

// culprit is the first of the paths that the file sets: the one to blame for what does not fit together.
func (d *document) culprit(paths ...string) string {
	for _, p := range paths {
		if d.set(p) {
			return p
		}
	}
	return paths[0]
}

var hostForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

// checkAddr accepts host:port, the host an IP address or a name; to listen, the host may be empty and the port 0.
func checkAddr(addr string, listen bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is no address", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 && !listen {
		return fmt.Errorf("%q: port %q is no number from 1 to 65535", addr, port)
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "" && listen || hostForm.MatchString(host) {
		return nil
	}
	return fmt.Errorf("%q: host %q is no IP address and no name", addr, host)
}
