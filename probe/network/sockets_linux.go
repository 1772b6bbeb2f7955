// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

// listeningByKernel asks the kernel for the sockets that are listened on and for no
// others. /proc/net/tcp goes through every bucket of the table of connections, however
// few there are: half a million on a large machine.
func listeningByKernel() (found []*socket, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		request.AddRawData(listenersOf(family))
		messages, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil {
			return nil, err
		}
		for _, message := range messages {
			s, err := parseDiagnosis(message)
			if err != nil {
				return nil, err
			}
			found = append(found, s)
		}
	}
	return found, nil
}

// The sizes of the kernel's include/uapi/linux/inet_diag.h: struct inet_diag_req_v2
// and struct inet_diag_msg, each with a struct inet_diag_sockid in it.
const (
	sizeOfQuestion  = 56
	sizeOfDiagnosis = 72
)

// listenersOf is a struct inet_diag_req_v2.
func listenersOf(family byte) []byte {
	question := make([]byte, sizeOfQuestion)
	question[0], question[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(question[4:], 1<<tcpListen) // idiag_states
	return question
}

// parseDiagnosis reads a struct inet_diag_msg.
func parseDiagnosis(message []byte) (*socket, error) {
	if len(message) < sizeOfDiagnosis {
		return nil, fmt.Errorf("the kernel tells of a socket in %d bytes", len(message))
	}
	address := netip.AddrFrom16([16]byte(message[8:24]))
	if message[0] == unix.AF_INET {
		address = netip.AddrFrom4([4]byte(message[8:12]))
	}
	return &socket{
		Listener: facts.Listener{
			Address: address.String(),
			Port:    int(binary.BigEndian.Uint16(message[4:])),
			UID:     int(binary.NativeEndian.Uint32(message[64:])),
		},
		inode: uint64(binary.NativeEndian.Uint32(message[68:])),
	}, nil
}
