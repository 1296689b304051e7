//go:build !linux

package main

import "os/exec"

// dieWithParent has no counterpart here: a demo that is killed may leave processes.
func dieWithParent(*exec.Cmd) {}
