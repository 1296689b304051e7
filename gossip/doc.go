// Package gossip knows who is where. It keeps the directory: every record that this node knows, its own and those of others.
//
//	node/registry ──Put / Remove──▶ Directory ──snapshot──▶ reach (Agent, Capability)
//
// A snapshot is immutable and stands behind an atomic pointer: readers take no lock and never wait for writers. It is indexed
// by agent and by capability, so that neither look-up grows with the number of agents. Writers are serialised, and share with
// the snapshot before what they did not change.
package gossip
