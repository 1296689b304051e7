// Command agent-reach runs a node, and speaks to one.
//
//	main.go ──▶ program.go       the root command: run a node (run.go)
//	              ├─ call.go, broadcast.go, lookup.go, explain.go      sealed messages, through client.go
//	              ├─ agents.go, capabilities.go                        what the node's directory knows
//	              ├─ attach.go                                         an agent without a key, in the operator's name
//	              └─ keys.go, config.go, version.go                    local files
//
// client.go is a caller: one key, one id, HTTP. answer.go proves what comes back. output.go shows it; whatever came over the network is
// shown so that it cannot act on a terminal.
//
// # Errors
//
// failure.go maps every *envelope.Error to one of six exit codes, which `agent-reach --help` documents. An error is printed on
// standard error as "error: code at step: text", its hint and its trace id below; with --json as {"error": {…}} on standard output.
package main
