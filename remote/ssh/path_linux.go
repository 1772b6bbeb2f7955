// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// resent is how often the kernel must have resent a packet without success before it counts as more
// than bad luck. The kernel doubles the wait every time, from 0.2 s on.
const resent = 3

// packetsOf asks the kernel about a connection. It returns an error if the connection was closed.
func packetsOf(conn *net.TCPConn) (packets, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return packets{}, err
	}
	var seen packets
	var failed error
	err = raw.Control(func(fd uintptr) { seen, failed = packetsOfSocket(int(fd)) })
	if err != nil {
		return packets{}, err
	}
	return seen, failed
}

func packetsOfSocket(fd int) (packets, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return packets{}, err
	}
	// If the socket holds data that it cannot deliver, these data wait for the bytes before them.
	// The first number of SO_MEMINFO is SK_MEMINFO_RMEM_ALLOC (linux/sock_diag.h).
	memory, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_MEMINFO)
	if err != nil {
		return packets{}, err
	}
	kept, readable := binary.NativeEndian.Uint32(binary.NativeEndian.AppendUint64(nil, memory)), 0
	if kept > 0 {
		if readable, err = unix.IoctlGetInt(fd, unix.SIOCINQ); err != nil {
			return packets{}, err
		}
	}
	return packets{
		acknowledged: info.Bytes_acked,
		received:     info.Bytes_received,
		unanswered:   info.Unacked > 0 && info.Retransmits >= resent,
		gap:          readable == 0 && kept > 0,
		segment:      int(info.Snd_mss),
		expected:     int(info.Advmss),
		mtu:          int(info.Pmtu),
	}, nil
}
