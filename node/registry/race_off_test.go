//go:build !race

package registry

const racing = false
