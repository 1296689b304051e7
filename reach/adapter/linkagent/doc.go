// Package linkagent reaches an agent over the link that the agent opened to its node.
//
//	reach ──Call──▶ link ═══▶ agent        the envelope as it was sealed, what is left of its time beside it
//	      ◀─parts──      ◀═══
//
// # Errors
//
// Those of link.Link.Call: Unreachable where the message was certainly not handed over, Timeout where it may have run, and what the
// agent itself says. When the caller gave up, the error is context.Canceled as well: it says nothing of the agent.
package linkagent
