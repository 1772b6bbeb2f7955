// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package drill

import (
	"os"
	"preflight/internal/hostsys"
	"syscall"
	"time"
)

// endFamily ends pdsh and every ssh it has started, which only pdsh knows: at a
// second interrupt within a second it passes it on to them
// (src/pdsh/dsh.c, _handle_sigint). What does not mind an interrupt is killed.
func endFamily(pid int) error {
	for range 2 {
		if err := syscall.Kill(-pid, syscall.SIGINT); err != nil {
			return os.ErrProcessDone
		}
		time.Sleep(hostsys.Grace / 4)
	}
	return syscall.Kill(-pid, syscall.SIGKILL)
}
