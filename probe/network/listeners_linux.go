// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

// tcpListen is the value of TCP_LISTEN in the kernel's include/net/tcp_states.h.
const tcpListen = 0x0a

// launchPorts lists the default rendezvous ports of a launch, for torchrun's rendezvous and for
// torch's store. To find the process that holds a socket, preflight must scan all processes. It
// does so only for these ports and the master port.
var launchPorts = []int{29400, 29500}

// listeners lists the TCP ports on which processes listen in this network namespace, by port.
func listeners(ctx context.Context, o machine.Options) ([]facts.Listener, error) {
	proc, err := procfs.NewFS(o.At("/proc"))
	if err != nil {
		return nil, fmt.Errorf("listening ports: %w", err)
	}
	found, err := listening(o, proc)
	if err != nil {
		return nil, fmt.Errorf("listening ports: %w", err)
	}
	wanted := slices.DeleteFunc(slices.Clone(found), func(s *socket) bool {
		return s.Port != o.MasterPort && !slices.Contains(launchPorts, s.Port)
	})
	isHere := o.Root == "" && len(wanted) > 0 // false for a recorded machine
	for _, s := range wanted {
		if isHere {
			s.turn = hostsys.HasTurn(hostsys.TurnAtPort(s.Port))
		}
	}
	findHolders(ctx, proc, wanted)
	if isHere {
		// A socket that has been closed in the meantime has no holder to find, and blocks no
		// launch.
		left, err := listening(o, proc)
		if err != nil {
			return nil, fmt.Errorf("listening ports: %w", err)
		}
		found = slices.DeleteFunc(found, func(s *socket) bool {
			return slices.Contains(wanted, s) && !slices.ContainsFunc(left, func(l *socket) bool { return l.inode == s.inode })
		})
	}
	result := make([]facts.Listener, len(found))
	for i, s := range found {
		result[i] = s.Listener
		result[i].Preflight = s.isPreflight()
	}
	slices.SortStableFunc(result, func(a, b facts.Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address))
	})
	return result, nil
}

// socket is a listening socket.
type socket struct {
	facts.Listener
	inode uint64
	turn  *hostsys.Taken // the preflight that has the turn at the socket's port
}

// isPreflight reports whether the socket belongs to the preflight that has the turn at its port. A
// preflight that finds another program at the port also has the turn for a moment. isPreflight
// distinguishes the two programs by their process IDs, or at least by their users.
func (s *socket) isPreflight() bool {
	address, err := netip.ParseAddr(s.Address)
	switch {
	case s.turn == nil, err != nil || !address.IsUnspecified():
		return false
	case s.PID != 0:
		return s.turn.PID == s.PID
	}
	return s.turn.UID == s.UID
}

// listening returns the listening sockets. It reads them from a file for a recorded machine, and if
// the kernel cannot answer the netlink query.
func listening(o machine.Options, proc procfs.FS) (found []*socket, err error) {
	if o.Root == "" {
		if found, err := listeningByKernel(); err == nil {
			return found, nil
		}
	}
	//lint:ignore SA1019 what it recommends has all connections told at length, and no recorded machine
	sockets, err := proc.NetTCP()
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 as above
	six, err := proc.NetTCP6()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // this file does not exist if the kernel has no IPv6
		return nil, err
	}
	for _, s := range append(sockets, six...) {
		if address, ok := netip.AddrFromSlice(s.LocalAddr); ok && s.St == tcpListen {
			found = append(found, &socket{Listener: facts.Listener{Address: address.String(), Port: int(s.LocalPort), UID: int(s.UID)}, inode: s.Inode})
		}
	}
	return found, nil
}

// findHolders sets the process that has each socket open. Without privileges it cannot read other
// users' processes, and their sockets get no holder.
func findHolders(ctx context.Context, proc procfs.FS, wanted []*socket) {
	missing := len(wanted)
	if missing == 0 {
		return
	}
	processes, err := proc.AllProcs()
	if err != nil {
		return
	}
	for _, process := range processes {
		targets, err := process.FileDescriptorTargets()
		if err != nil {
			continue
		}
		for _, target := range targets {
			inode, isSocket := parseSocketLink(target)
			at := slices.IndexFunc(wanted, func(s *socket) bool { return isSocket && s.inode == inode && s.PID == 0 })
			if at < 0 {
				continue
			}
			command, _ := process.CmdLine() // a process that has just ended has none
			wanted[at].PID, wanted[at].Command = process.PID, shortCommand(command)
			missing--
		}
		if missing == 0 || ctx.Err() != nil {
			return
		}
	}
}

// parseSocketLink parses the target of a link /proc/PID/fd/N that leads to a socket:
// "socket:[12345]".
func parseSocketLink(target string) (inode uint64, ok bool) {
	number, isSocket := strings.CutPrefix(target, "socket:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, isSocket && err == nil
}

// shortCommand returns enough of a command line to recognise a process, but no more than four
// words. It ends before the first word with a value, because values may be secrets.
func shortCommand(words []string) string {
	var kept []string
	for i, word := range words {
		if i > 0 && strings.ContainsAny(word, "=@ \n") || len(kept) == 4 {
			break
		}
		kept = append(kept, word)
	}
	return strings.Join(kept, " ")
}

// listeningByKernel asks the kernel for only the listening sockets. Reading /proc/net/tcp goes
// through every bucket of the connection table, even if there are few connections. A large machine
// has half a million buckets.
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

// These sizes are from the kernel's include/uapi/linux/inet_diag.h: struct inet_diag_req_v2 and
// struct inet_diag_msg. Each contains a struct inet_diag_sockid.
const (
	sizeOfQuestion  = 56
	sizeOfDiagnosis = 72
)

// listenersOf returns a struct inet_diag_req_v2 that asks for the listening sockets of an address
// family.
func listenersOf(family byte) []byte {
	question := make([]byte, sizeOfQuestion)
	question[0], question[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(question[4:], 1<<tcpListen) // field idiag_states
	return question
}

// parseDiagnosis parses a struct inet_diag_msg.
func parseDiagnosis(message []byte) (*socket, error) {
	if len(message) < sizeOfDiagnosis {
		return nil, fmt.Errorf("the kernel described a socket in only %d bytes", len(message))
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
