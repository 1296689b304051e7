// Package ingress is what callers and agents speak: HTTP/1.1 and WebSocket on one TCP listener.
//
//	connection ─listener.go─▶ request ─routes.go─▶ one handler of the table
//
//	POST /v1/messages …  body.go ─▶ envelope ─▶ message.go ─┐
//	GET /v1/link         link.go ─▶ envelope ───────────────┴▶ dispatch.go ─▶ reach, Registry
//	                                                                │
//	                     answer.go (HTTP) or link ◀── parts, error ─┘
//
//	GET /v1/agents, /v1/capabilities, /v1/nodes     agents.go, capabilities.go   what the directory knows
//	POST /v1/lookup, /v1/explain                    lookup.go                    what would be chosen, and leave to call it direct
//	GET /healthz, /readyz, /metrics                 operation.go
//
// Whatever comes over HTTP and over a link meets the same dispatcher, so that both answer alike. A message's answer is a stream of
// parts: one part is a JSON document, several are lines (application/x-ndjson).
//
// openapi.yaml describes all of it; a test holds it to the route table, the codes and the structs in this package.
//
// # Life
//
// Run serves until its context ends. Then, in this order: /readyz says 503 and new messages are refused as unreachable; links
// are told goaway; what runs may finish within DrainTimeout; what still runs then is cancelled; connections are closed. When Run
// has returned, nothing of it runs any more.
//
// # Bounds
//
// Connections, links, calls in flight, bytes of bodies held, header and body sizes, time for headers, for bodies and for reading an
// answer: each has a limit, and whoever meets it is told so (overloaded, too_large, or a closed connection where the peer is
// silent).
//
// # Trust
//
// Nothing in an HTTP header changes what a message means: who said it is proven by the seal, and of the headers with which nodes
// and agents talk only Agent-Reach-Timeout-Ms is read. It can shorten a call, never lengthen it. A page in a browser may not post
// messages or open links from another origin.
//
// # Errors
//
// Before an answer has begun, every error is an RFC 9457 problem document made of an *envelope.Error. Afterwards it is the
// answer's last line, {"error": {…}}.
package ingress
