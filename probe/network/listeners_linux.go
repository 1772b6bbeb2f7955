package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

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
	//lint:ignore SA1019 what it recommends has all connections told at length, and no recorded machine
	sockets, err := proc.NetTCP()
	if err != nil {
		return nil, fmt.Errorf("listening ports: %w", err)
	}
	//lint:ignore SA1019 as above
	six, err := proc.NetTCP6()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6 has no such file
		return nil, fmt.Errorf("listening ports: %w", err)
	}
	found := []facts.Listener{}
	holders := map[uint64]*procfs.Proc{} // by socket inode, nil until found
	inodes := map[facts.Listener]uint64{}
	for _, socket := range append(sockets, six...) {
		address, ok := netip.AddrFromSlice(socket.LocalAddr)
		if !ok || socket.St != tcpListen {
			continue
		}
		listener := facts.Listener{Address: address.String(), Port: int(socket.LocalPort), UID: int(socket.UID)}
		found = append(found, listener)
		if listener.Port == o.MasterPort || slices.Contains(launchPorts, listener.Port) {
			inodes[listener] = socket.Inode
			holders[socket.Inode] = nil
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
