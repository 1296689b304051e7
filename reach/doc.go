// Package reach is how a request arrives. Ingress.Reach, in ingress.go, is the whole way on one screen:
//
//	admit     admission.go   size, clock, seal, seen, permission
//	resolve   resolve.go     target → candidates, from the directory's snapshot
//	check     check.go       payload against each candidate's input_schema
//	choose    choose.go      score (score.go, path.go), rank, draw
//	forward   forward.go     here → Home.Deliver; elsewhere → Peers; the next candidate only when nothing was handed over
//	deliver   home.go        queue (queue.go), call the agent, check its answer (answer.go)
//
// An answer is a stream of one or more parts, pushed into a Sink by the calls that carried the request; there is no second
// way back. The place in the agent's queue is given back when the stream ends.
//
// Beside the way: Broadcast (broadcast.go) asks every agent of a capability, Lookup and Explain (explain.go) tell what would be chosen.
//
// The package waits only through its interfaces and the context. It opens no socket, reads no file and starts no goroutine but
// Broadcast's, which end before it returns.
//
// # Errors
//
// Every error is an *envelope.Error. Whatever is tried again was certainly not run (Code.NotRun), or may be repeated because the
// capability says so (Effect.Repeatable).
package reach
