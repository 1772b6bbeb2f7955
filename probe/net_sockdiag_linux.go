package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listeningSocket is one TCP socket that listens.
type listeningSocket struct {
	address netip.Addr
	port    int
	uid     int
	inode   uint64
}

// diagRequest is struct inet_diag_req_v2 of the kernel's
// include/uapi/linux/inet_diag.h, for listening TCP sockets of one family. The
// kernel then walks its table of listeners alone; /proc/net/tcp has it walk the
// table of all connections, which takes milliseconds even when that is empty.
type diagRequest struct{ family uint8 }

const (
	diagRequestSize = 56
	diagAnswerSize  = 72 // struct inet_diag_msg
)

func (r diagRequest) Len() int { return diagRequestSize }

func (r diagRequest) Serialize() []byte {
	b := make([]byte, diagRequestSize)
	b[0], b[1] = r.family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(b[4:], 1<<tcpListen)
	return b
}

// listeningByDiag asks the kernel for the listening TCP sockets of this network
// namespace. A kernel without the diag module answers with an error.
func listeningByDiag() ([]listeningSocket, error) {
	var found []listeningSocket
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		request.AddData(diagRequest{family})
		answers, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil {
			return nil, fmt.Errorf("sock_diag: %w", err)
		}
		for _, answer := range answers {
			if socket, ok := parseDiag(answer); ok {
				found = append(found, socket)
			}
		}
	}
	return found, nil
}

// parseDiag reads one struct inet_diag_msg. The port and the address are in
// network order, the rest in the machine's.
func parseDiag(b []byte) (s listeningSocket, ok bool) {
	if len(b) < diagAnswerSize {
		return s, false
	}
	if b[0] == unix.AF_INET6 {
		s.address = netip.AddrFrom16([16]byte(b[8:24]))
	} else {
		s.address = netip.AddrFrom4([4]byte(b[8:12]))
	}
	s.port = int(binary.BigEndian.Uint16(b[4:]))
	s.uid = int(binary.NativeEndian.Uint32(b[64:]))
	s.inode = uint64(binary.NativeEndian.Uint32(b[68:]))
	return s, true
}
