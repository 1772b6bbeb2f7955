// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"fmt"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/internal/text"
	"preflight/probe/machine"
)

// readCalls lists the system calls that read from or lock the file descriptor in their first
// argument.
var readCalls = func() (all []string) {
	return text.Map([]int{unix.SYS_READ, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_FLOCK, unix.SYS_FCNTL}, strconv.Itoa)
}()

// flows returns the TCP connections of this network namespace, by the target of their file
// descriptors. The counters of the kernel are tcpi_bytes_acked and tcpi_bytes_received of struct
// tcp_info, since Linux 4.1. Every user may read them.
func flows(o machine.Options) (map[string]*flow, error) {
	open := map[string]*flow{}
	if o.Root != "" {
		return open, nil // the kernel has no connections of a fixture
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		listed, err := netlink.SocketDiagTCPInfo(family)
		if err != nil {
			return nil, err
		}
		for _, one := range listed {
			s := one.InetDiagMsg
			if one.TCPInfo == nil || s.INode == 0 || s.State == netlink.TCP_LISTEN {
				continue
			}
			inode := fmt.Sprintf("socket:[%d]", s.INode)
			open[inode] = &flow{JobFlow: facts.JobFlow{
				Remote: s.ID.Destination.String(), RemotePort: int(s.ID.DestinationPort),
				Bytes:  int64(one.TCPInfo.Bytes_acked + one.TCPInfo.Bytes_received),
				Unread: int(s.RQueue), Unsent: int(s.WQueue),
				Sent: float64(time.Now().UnixMilli()-int64(one.TCPInfo.Last_data_sent)) / 1000,
			}, Port: int(s.ID.SourcePort), inode: inode}
		}
	}
	return open, nil
}
