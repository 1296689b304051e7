package scenario

import (
	"os/exec"
	"syscall"
)

// leash puts the process into a group of its own, and lets the kernel kill it if the tests die.
func leash(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
