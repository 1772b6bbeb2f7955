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
	"preflight/probe/machine"
)

// tcpListen is TCP_LISTEN of the kernel's include/net/tcp_states.h.
const tcpListen = 0x0a

// launchPorts are where a launch meets by default: torchrun's rendezvous and
// torch's store. Who holds one of them, or the master port, is worth the scan
// of all processes that finding a socket's holder takes.
var launchPorts = []int{29400, 29500}

// listeners lists the TCP ports listened on in this network namespace, by port.
func listeners(ctx context.Context, o machine.Options) ([]facts.Listener, error) {
	proc, err := procfs.NewFS(o.At("/proc"))
	if err != nil {
		return nil, fmt.Errorf("listening ports: %w", err)
	}
	sockets, err := listening(o, proc)
	if err != nil {
		return nil, fmt.Errorf("listening ports: %w", err)
	}
	found := []facts.Listener{}
	holders := map[uint64]*procfs.Proc{} // by socket inode, nil until found
	inodes := map[facts.Listener]uint64{}
	for _, socket := range sockets {
		listener := facts.Listener{Address: socket.address.String(), Port: socket.port, UID: socket.uid}
		found = append(found, listener)
		if listener.Port == o.MasterPort || slices.Contains(launchPorts, listener.Port) {
			inodes[listener] = socket.inode
			holders[socket.inode] = nil
		}
	}
	findHolders(ctx, proc, holders)
	for i, listener := range found {
		if holder := holders[inodes[listener]]; holder != nil {
			found[i].PID = holder.PID
			command, _ := holder.CmdLine() // a process that just ended has none
			found[i].Command = shortCommand(command)
		}
	}
	slices.SortStableFunc(found, func(a, b facts.Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address))
	})
	return found, nil
}

// listening lists the TCP sockets that listen: asked of the kernel, or read from
// /proc where it has no answer to that and on a recorded machine.
func listening(o machine.Options, proc procfs.FS) ([]listeningSocket, error) {
	if o.Root == "" {
		if sockets, err := listeningByDiag(); err == nil {
			return sockets, nil
		}
	}
	//lint:ignore SA1019 what it recommends has been tried above
	sockets, err := proc.NetTCP()
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 as above
	six, err := proc.NetTCP6()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6 has no such file
		return nil, err
	}
	var found []listeningSocket
	for _, socket := range append(sockets, six...) {
		if address, ok := netip.AddrFromSlice(socket.LocalAddr); ok && socket.St == tcpListen {
			found = append(found, listeningSocket{address, int(socket.LocalPort), int(socket.UID), socket.Inode})
		}
	}
	return found, nil
}

// findHolders fills in, for each socket inode wanted, a process that has it
// open. Processes of other users cannot be looked into without privilege; their
// sockets keep no holder.
func findHolders(ctx context.Context, proc procfs.FS, wanted map[uint64]*procfs.Proc) {
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
			if holder, want := wanted[inode]; isSocket && want && holder == nil {
				wanted[inode] = &process
				missing--
			}
		}
		if missing == 0 || ctx.Err() != nil {
			return
		}
	}
}

// parseSocketLink reads what /proc/PID/fd/N points to for a socket:
// "socket:[12345]".
func parseSocketLink(target string) (inode uint64, ok bool) {
	number, isSocket := strings.CutPrefix(target, "socket:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, isSocket && err == nil
}

// shortCommand is enough of a command line to recognise a process: at most four
// words, ending before the first that carries a value, because values may be
// secrets.
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
