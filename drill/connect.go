// SPDX-License-Identifier: Apache-2.0

// Package drill performs tests that nodes can only do by trying. It tests whether nodes complete a
// rendezvous, which process answers at an endpoint, whether nodes can log in to each other, and
// what a launch's pdsh does. The larger tests are in packages mesh (connections between nodes) and
// c10d (torch's store).
//
// The package runs on the nodes. It does not evaluate results, and it does not repeat what failed:
// preflight exists to find links that work only the second time. It leaves no listener and no child
// process behind, because everything ends with its context. A listener closes connections from
// strangers: a call starts with a token that only this run knows.
package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"preflight/drill/outcome"
	"preflight/facts"
	"preflight/internal/hostsys"
)

// reachTime is the time limit for reaching an endpoint at any of its addresses. It is long enough
// to resend one lost packet.
const reachTime = 1500 * time.Millisecond

// resolveTime leaves time for the call.
const resolveTime = time.Second

// leastTime is how long a call must have lasted before silence proves anything. The kernel resends
// the first packet of a call after a second.
//
// Source: TCP_TIMEOUT_INIT in include/net/tcp.h, Linux 6.18.
const leastTime = time.Second

// errNoAddress is the error for a name that exists but has no address.
var errNoAddress = errors.New("the name has no address to connect to")

// resolve returns a host's addresses on this node in the order in which torch tries them. That is
// the order of getaddrinfo (RFC 6724), which puts IPv6 first if the node can use IPv6. torch then
// tries the IPv4 addresses as IPv4-mapped IPv6 addresses (socket.cpp, SocketConnectOp).
// It waits no longer than resolveTime for name servers if /etc/hosts, which comes after them, has
// the name.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return hostsys.NewNames("").LookupAtLast(ctx, resolveTime, "ip", host)
}

func unresolved(ctx context.Context, err error) string {
	var dns *net.DNSError
	switch {
	case ctx.Err() != nil:
		return "the name service did not answer in time"
	case !errors.As(err, &dns):
		return err.Error()
	case dns.Server != "" && !dns.IsNotFound:
		return fmt.Sprintf("name server %s: %s", dns.Server, dns.Err)
	}
	return dns.Err
}

// callFirst connects to the first address that accepts. It skips an address without a route, as
// torch does. If it cannot connect, the error is that of the first address with a route. The error
// is [outcome.ErrNoTime] if ctx left no address enough time to answer.
func callFirst(ctx context.Context, addresses []netip.Addr, port int) (net.Conn, error) {
	if len(addresses) == 0 {
		return nil, errNoAddress
	}
	w := hostsys.BeginWait()
	deadline, limited := ctx.Deadline()
	hurried := limited && time.Until(deadline) < min(leastTime, reachTime/time.Duration(len(addresses)))
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	var worst error
	for i, address := range addresses {
		deadline, _ := ctx.Deadline()
		// Each address gets its share of the time. An address that drops the call therefore does
		// not use up the time of the next address.
		part, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addresses)-i))
		var dialer net.Dialer
		conn, err := dialer.DialContext(part, "tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
		cancel()
		switch {
		case err == nil:
			return conn, nil
		case outcome.Of(err) == facts.PathDropped && (hurried || w.Busy() > 0):
			err = outcome.ErrNoTime
		}
		if worst == nil || outcome.Of(worst) == facts.PathUnroutable {
			worst = err
		}
	}
	return nil, worst
}

func texts(addresses []netip.Addr) []string {
	texts := make([]string, len(addresses))
	for i, address := range addresses {
		texts[i] = address.String()
	}
	return texts
}
