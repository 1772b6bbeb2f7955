//go:build !linux

package drill

import (
	"os"
	"syscall"
	"time"
)

// ownSession starts a child without a terminal that somebody could be asked at.
// When we are killed, only the child's closed pipes tell it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// endFamily ends pdsh and every ssh it has started, which only pdsh knows: at a
// second interrupt within a second it passes it on to them
// (src/pdsh/dsh.c, _handle_sigint). What does not mind an interrupt is killed.
func endFamily(pid int) error {
	for range 2 {
		if err := syscall.Kill(-pid, syscall.SIGINT); err != nil {
			return os.ErrProcessDone
		}
		time.Sleep(childGrace / 4)
	}
	return syscall.Kill(-pid, syscall.SIGKILL)
}
