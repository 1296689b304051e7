// Package scenario holds the product to what its users were promised, from outside: it drives the built program, its HTTP API, the Go SDK and
// the Python SDK, as real processes over real sockets of this machine's loopback.
//
//	main_test.go       builds the program (or takes AGENT_REACH_BIN)     roles_test.go   helper programs that are to be killed
//	process_test.go    a program in a process of its own: what it prints, how it ends
//	node_test.go       a node, its folder, its API, its log; killed and started again on the same port
//	agent_test.go      agents of the Go SDK        python_test.go  agents and callers of the Python SDK (python/*.py)
//	voice_test.go      a caller that writes its own envelopes, to say what no SDK would say
//	wire_test.go       HTTP by the byte            rawlink_test.go links by the frame
//	wait_test.go       conditions with a deadline: no test sleeps
//
//	article_test.go    the published article's code, unchanged (article/*.py)     plain_test.go   a web server without SDK
//	caseNN_test.go     row NN of the faults that users of similar systems met, each function named after its row
//	kill_test.go       processes killed at any moment        input_test.go, level_test.go    bad input, and what it leaves
//	config_test.go     configuration, enrolment, roles       operation_test.go               log, metrics, permissions, drain
//	demo_test.go, cli_test.go                                what a user types
//
// Tests that need Python are skipped unless AGENT_REACH_PYTHON names one that has the SDK. With the race detector the nodes
// are built with it too, and a race in one fails the test that it ran for.
//
// # Errors
//
// The package has no code beside its tests.
package scenario
