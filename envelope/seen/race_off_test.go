//go:build !race

package seen

const (
	million = 1_000_000
	models  = 10
	workers = 8
)
