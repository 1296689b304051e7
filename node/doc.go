// Package node is the running process: it reads the configuration, makes the parts and joins them, and is the only place where they meet.
//
//	                 ┌──────────────────────── node ────────────────────────┐
//	caller ─HTTP/WS─▶│ ingress ─▶ reach.Ingress ─▶ reach.Home ─▶ adapter ───│─▶ agent
//	agent  ─HTTP/WS─▶│ ingress ─▶ registry ─▶ gossip.Directory ─▶ (reach)   │
//	                 │ metrics, access log ◀── reach.Observer               │
//	                 └──────────────────────────────────────────────────────┘
//
// Parts start in the order registry, watchers, ingress, and stop in reverse: whoever lets requests in closes first, so that what
// it let in still finds everything it needs.
//
// Errors of New are *envelope.Error at StepConfig or StepKey and name the file; Run returns the first part's error that was not the end of
// its context.
package node
