// Package arch holds the code to the architecture: tests only.
//
//	rules.go          who may import whom, each rule with its reason
//	arch_test.go      fails on an import against the rules, and on a package without doc.go
//	size_test.go      prints, and never fails, what is longer or wider than it should be, and words that have a better one
//
// Run it with -count=1: Go's test cache does not know that the test reads the whole module.
//
// # Errors
//
// A violation is printed as "package imports package: reason".
package arch
