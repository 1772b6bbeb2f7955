package remote

import "syscall"

// ownGroup starts a process in a group of its own, which dies with the test.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
