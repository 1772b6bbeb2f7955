package testhosts

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Drops has a kernel that answers no SYN: a packet filter on the listening
// socket throws away all that arrives, as a firewall's DROP would.
func Drops(h *host) {
	h.control = func(_, _ string, c syscall.RawConn) error {
		nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
		var err error
		if inner := c.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
				&unix.SockFprog{Len: uint16(len(nothing)), Filter: &nothing[0]})
		}); inner != nil {
			return inner
		}
		return err
	}
}
