// Package sdk makes a Go program an agent: it offers capabilities, calls those of others, and looks up who could answer.
//
//	be an agent   New ▶ Handle, HandleStream ▶ Run        a link to a node, or HTTPHandler behind a web server of your own
//	call          Call, Do, Stream, Broadcast              from anywhere, also inside a handler
//	look up       Lookup                                   candidates, keys, scores, tickets; Call with Direct uses them by itself
//
// # Life of an Agent
//
//	New ──Run or the first call──▶ attaching ──registered──▶ attached ──ctx of Run ends, or Close──▶ draining ──▶ closed
//	                                ▲   │ back-off, full jitter,      │
//	                                │   └ next node of the list       │ link lost, node leaves
//	                                └────────────────────────────────┘
//
// Draining: the agent unregisters, so that no new call reaches it, lets its running handlers finish (WithDrain, 30 s), and leaves.
// A closed agent stays closed. No goroutine outlives Run or Close, save a handler of yours that ignores its context.
//
// # Inside a handler
//
// The handler's context ends at the caller's deadline and when the caller gives up. Calls made with it carry on the trace, the deadline and the
// chain of agents on whose behalf is asked; at most 16 deep, then Loop.
//
// # Proof
//
// Every message is sealed with the agent's key; messages that wait together share one signature. Every answer is checked: it belongs to the request, and
// the answering agent's key, which the node tells, proves it.
//
// # Errors
//
// Every failure is an *envelope.Error; match it with errors.Is(err, envelope.NoRoute). An error that the called agent gave is an *AgentError and matches
// envelope.AgentFailed. A call that failed because its context ended matches the context's error as well.
//
// The agent calls again by itself, at most twice and within the deadline, where the request was certainly not handed over (Unreachable). Timeout
// means that it may have run: whether to ask again is yours to say.
package sdk
