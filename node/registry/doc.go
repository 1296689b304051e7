// Package registry keeps the agents that are attached to this node: who they are, how they are reached, and whether they can work now.
//
//	ingress ──Register──▶ check: id, key, seal, interval, schemas ──▶ pin the key ──▶ seat at reach.Home, record in the directory
//	        ──Heartbeat─▶ lease, load, capabilities on and off, outcomes of direct calls
//	        ──Unregister▶ draining
//	        ──LinkDown──▶ unavailable at once
//	reach   ──Outcome───▶ three failures in a row: suspect
//	operator ─Attach────▶ an HTTP agent without a key, for which this node vouches
//
//	                      an answered probe
//	pending ─────────────────────────────────▶ available ◀──── probe, or an answered call ──── suspect
//	   ▲                                        │  │  └─── 3 failed calls, or a failed probe ────▲
//	   │ heartbeat after silence                │  └── unregister ──▶ draining ──nothing runs──▶ removed
//	   └───────────────────────── unavailable ◀─┘ link lost, silent for HeartbeatTimeout             ▲
//	                                    └───────── silent for CapabilityTTL ─────────────────────────┘
//
// An agent that registers again while it is available keeps its seat until what it now declares has answered a probe: there is no moment
// without it. What an operator attached is never removed for silence; it is probed until it answers.
//
// # Who runs
//
// Run owns every goroutine: one that keeps the leases, asleep until the next one is due, and up to maxProbers that probe, started when
// something is to be probed. One mutex guards all entries; no request waits for it: Outcome takes it only when a state changes.
//
// # What bounds memory
//
// MaxAgents entries, at most two registrations each; MaxPins keys in the key store; rememberedTickets ids of tickets whose outcome was told.
//
// # Errors
//
//	Malformed     the descriptor or payload is wrong; Places names each bad capability
//	Forbidden     the message is for another node, or comes over another agent's link
//	Conflict      the id is held by another key, or is this node's
//	UnknownAgent  not in the key store (enrolment keystore), or never registered here
//	BadSeal, ClockSkew, Expired, Duplicate      from admission; Expired also for a registration older than the last accepted one
//	Overloaded    MaxAgents or MaxPins are reached
//	Internal      a file could not be written; nothing was registered
package registry
