package drill

import (
	"runtime"
	"syscall"
)

// ownGroup starts a child in a process group of its own, which dies with us
// even when we are killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// holdThread keeps the thread that starts a child alive as long as the child:
// Linux kills it when that thread ends.
func holdThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
