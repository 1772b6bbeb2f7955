// SPDX-License-Identifier: Apache-2.0

// Package outcome says what came of a connection, or of the attempt to make one:
// in the words of the facts, in the system's, and between which ends. It makes
// no connection of its own, and knows nothing of what was sent over one.
package outcome

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"preflight/facts"
	"preflight/internal/hostsys"
)

// ErrNoTime is of a call for which there was too little time to say anything of its peer.
var ErrNoTime = errors.New("no time was left to wait for its answer")

// Excuse makes a call untried if all that happened is that the peer's process did not answer in time, and there is an
// excuse for that, as [hostsys.Wait.Excuse] returns it. That nothing answers at all is another matter: the kernel takes
// calls, however busy the process is that listens.
func Excuse(path *facts.Path, excuse string) {
	if excuse != "" && (path.Outcome == facts.PathSilent || path.Outcome == facts.PathBlackhole) {
		*path = facts.Path{Peer: path.Peer, To: path.To, Port: path.Port, Outcome: facts.PathUntried, Error: excuse, Seconds: path.Seconds}
	}
}

// Of is what an error of a connection attempt, or of the connection it
// led to, says about the path, "" for no error.
//
// What a router answers, what the caller's own routing table answers and what comes
// of a peer that nobody on the link answers for is the same error, and of the last
// there may be none in time; they are told apart by asking the tables of routes and
// neighbours again, without a packet.
func Of(err error) facts.PathOutcome {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrNoTime):
		return facts.PathUntried
	case errors.Is(err, syscall.ECONNREFUSED):
		return facts.PathRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return facts.PathReset
	// A route of type blackhole answers with EINVAL, and a packet filter that
	// judges system calls instead of packets with EPERM.
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EINVAL):
		switch {
		case !routed(err):
			return facts.PathUnroutable
		case isUnresolved(err):
			return facts.PathUnresolved
		}
		return facts.PathRejected
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOPROTOOPT), errors.Is(err, syscall.EHOSTDOWN):
		return facts.PathRejected
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return unanswered(err)
	}
	return facts.PathBroken
}

// unanswered is a time that ran out: of the attempt, or of the connection.
func unanswered(err error) facts.PathOutcome {
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op != "dial" {
		return facts.PathSilent
	}
	if isUnresolved(err) {
		return facts.PathUnresolved
	}
	return facts.PathDropped
}

// isUnresolved is whether the kernel had nobody to hand the packets to, because nobody on the
// link has answered for the address: not to ARP, not to neighbour discovery. A connection
// that is tried for longer than its three requests, one a second, then fails with "no route
// to host"; one that is given up earlier only waits.
//
// Source: neigh_timer_handler in net/core/neighbour.c, ipv4_link_failure in net/ipv4/route.c,
// Linux 6.18.
func isUnresolved(err error) bool {
	op := (*net.OpError)(nil)
	if !errors.As(err, &op) || op.Addr == nil {
		return false
	}
	to, err := netip.ParseAddrPort(op.Addr.String())
	if err != nil {
		return false
	}
	hop, err := hostsys.NextHopTo(to.Addr(), to.Addr().Zone())
	return err == nil && hop.Unanswered
}

// routed is whether this machine has a route to where the failed attempt went.
// A UDP socket is connected by looking the route up, and sends nothing.
func routed(err error) bool {
	op := (*net.OpError)(nil)
	if !errors.As(err, &op) || op.Addr == nil {
		return false
	}
	socket, err := net.Dial("udp", op.Addr.String())
	if err != nil {
		return false
	}
	socket.Close()
	return true
}

// Words are the system's for an error of a connection.
func Words(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	}
	return err.Error()
}

// Ends are the two ends of a connection: the address called, and the interface
// and address it was called from.
func Ends(conn net.Conn) (to, iface, from string) {
	local, remote := conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	return remote.Addr().Unmap().String(), interfaceOf(local.Addr().Unmap()), local.Addr().Unmap().String()
}

// interfaceOf is the interface that has an address, "" for none.
func interfaceOf(address netip.Addr) string {
	interfaces, _ := net.Interfaces() // none are known then
	for _, iface := range interfaces {
		addresses, _ := iface.Addrs()
		if slices.ContainsFunc(addresses, func(a net.Addr) bool {
			prefix, err := netip.ParsePrefix(a.String())
			return err == nil && prefix.Addr().WithZone("") == address.WithZone("")
		}) {
			return iface.Name
		}
	}
	return ""
}
