//go:build race

package registry

// racing: bubbles of testing/synctest are skipped, which the race detector of Go 1.26 cannot follow.
const racing = true
