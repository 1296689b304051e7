//go:build !race

package envelope_test

const race = false
