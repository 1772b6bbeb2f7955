// SPDX-License-Identifier: Apache-2.0

// Package outcome classifies the result of a connection, or of the attempt to make one. It returns
// the result as a value of the facts and as the system's message, together with the connection's
// two ends. It makes no connection and does not know what was sent.
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

// ErrNoTime is the error of a call that had too little time to prove anything about its peer.
var ErrNoTime = errors.New("no time was left to wait for its answer")

// Excuse marks a call as untried if the peer's process did not answer in time and there is an
// excuse for that. [hostsys.Wait.Excuse] returns such an excuse. Excuse does nothing if the peer's
// kernel did not answer either, because the kernel accepts connections even if the listening
// process is busy.
func Excuse(path *facts.Path, excuse string) {
	if excuse != "" && (path.Outcome == facts.PathSilent || path.Outcome == facts.PathBlackhole) {
		*path = facts.Path{Peer: path.Peer, To: path.To, Port: path.Port, Outcome: facts.PathUntried, Error: excuse, Seconds: path.Seconds}
	}
}

// Of returns what an error says about the path. The error is from a connection attempt, or from the
// connection. Of returns "" if there is no error.
//
// Three situations give the same error: a router's answer, the caller's own routing table, and a
// peer for which no machine on the link answers. In the third situation the error may not come in
// time. Of distinguishes the situations by reading the tables of routes and neighbours again,
// without sending a packet.
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
	// A route of type blackhole answers with EINVAL, one of type prohibit with EACCES. A filter on
	// system calls (not on packets) answers with EPERM.
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EACCES):
		switch {
		case !routed(err):
			return facts.PathUnroutable
		case isUnresolved(err):
			return facts.PathUnresolved
		}
		return facts.PathRejected
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOPROTOOPT), errors.Is(err, syscall.EHOSTDOWN):
		return facts.PathRejected
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return unanswered(err)
	}
	return facts.PathBroken
}

// unanswered returns the outcome of a timeout, either of the connection attempt or of the
// connection.
func unanswered(err error) facts.PathOutcome {
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op != "dial" {
		return facts.PathSilent
	}
	if isUnresolved(err) {
		return facts.PathUnresolved
	}
	return facts.PathDropped
}

// isUnresolved reports whether no machine on the link has answered for the address, neither to ARP
// nor to neighbour discovery. The kernel sends three requests, one per second. A connection attempt
// that lasts longer fails with "no route to host". An attempt that ends earlier only waits.
//
// Source: neigh_timer_handler in net/core/neighbour.c, ipv4_link_failure in net/ipv4/route.c, Linux
// 6.18.
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

// routed reports whether this machine has a route to the address of the failed attempt. Connecting
// a UDP socket looks up the route and sends nothing.
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

// Words returns the system's message for an error of a connection.
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

// Ends returns the two ends of a connection: the address that was called, and the interface and the
// address of the caller.
func Ends(conn net.Conn) (to, iface, from string) {
	local, remote := conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	return remote.Addr().Unmap().String(), interfaceOf(local.Addr().Unmap()), local.Addr().Unmap().String()
}

// interfaceOf returns the interface that has the given address, "" if no interface has it.
func interfaceOf(address netip.Addr) string {
	interfaces, _ := net.Interfaces() // on an error the list is empty and the result is ""
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
