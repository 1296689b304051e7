//go:build race

package seen

// The race detector makes every look-up ten times as slow.
const (
	million = 50_000
	models  = 4
	workers = 4
)
