// Package vectors holds the test vectors that every implementation of the wire shares, and holds this one to them.
//
//	makers (in the tests) ──go test -update──▶ *.json ──▶ this package's tests, and those of sdk/python
//
// README.md describes the files. The package has no code and so no errors.
package vectors
