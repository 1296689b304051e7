//go:build !linux

package scenario

import (
	"os/exec"
	"syscall"
)

// leash puts the process into a group of its own.
func leash(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
