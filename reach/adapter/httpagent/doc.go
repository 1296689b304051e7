// Package httpagent reaches an agent that listens on an HTTP address.
//
//	an agent with a key         POST {"envelope", "payload", "seal", "ticket"}   ──▶   response documents, sealed by the agent
//	a keyless one (VouchKey)    POST payload                                     ──▶   payload; the node makes and seals the response
//
// One call is one exchange over one connection of the agent's own pool:
//
//	take a place in the pool ─▶ connect or reuse ─▶ write ─▶ head of the answer ─▶ body, part by part ─▶ give the place back
//	└──────────── nothing handed over ──────────┘  └───────────────── it may have run ──────────────┘
//
// Which side of that border a failure lies on is decided by the connection itself, for each request exactly once: see attempt. No header of a caller
// or of an agent crosses; what the two need to know of each other stands in the envelope. Redirects are not followed, proxies of
// the process's environment are not used, a request is never written twice.
//
// # Errors
//
//	Unreachable   not one byte of the request was written
//	Timeout       it was handed over, and no whole answer came; it may have run
//	Overloaded    the agent refused to take it: HTTP 429 or 503 with Retry-After, or a problem document
//	TooLarge      the answer is over the payload limit (step answer)
//	Malformed     the answer is no answer (step answer), or the payload cannot stand in a JSON document
//	UnknownAgent  no key is known of the caller, so that no ticket can be made
//	what else an agent's problem document says
//
// When the caller gave up, the error is context.Canceled as well: it says nothing of the agent.
package httpagent
