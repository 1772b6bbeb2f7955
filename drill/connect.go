// SPDX-License-Identifier: Apache-2.0

// Package drill tries what can only be known by trying: whether nodes complete a
// rendezvous, who is at an endpoint, whether nodes can log in to each other, what
// becomes of the pdsh of a launch. Packages mesh and c10d have what takes more:
// the calls of nodes to each other, and torch's store.
//
// It runs on the nodes. It refuses to judge, to repeat what failed (a link that
// works the second time is what we exist to find), and to leave a listener or a
// child behind: everything ends with its context. Strangers that call a
// listener are dropped: a call starts with a token that only this run knows.
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

// reachTime is for reaching an endpoint, all its addresses together. One lost
// packet is sent again within it.
const reachTime = 1500 * time.Millisecond

// leastTime is for how long a call must have been under way for its silence to say something: its
// first packet is sent again after a second.
//
// Source: TCP_TIMEOUT_INIT in include/net/tcp.h, Linux 6.18.
const leastTime = time.Second

// errNoAddress is a name that is known and leads nowhere.
var errNoAddress = errors.New("the name has no address to connect to")

// resolve is what a host is on this node, in the order torch tries it: that of
// getaddrinfo (RFC 6724), which puts IPv6 first where it can be used, and where
// IPv4 addresses follow as mapped ones (socket.cpp, SocketConnectOp).
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return hostsys.NewNames("").LookupNetIP(ctx, "ip", host)
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

// callFirst connects to the first address that takes the call. The error is
// that of the first that could have: one without a route is passed over, by
// torch too. It is [outcome.ErrNoTime] where ctx left no address time to answer.
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
		// Each gets its share of the time, so that one that drops the call does
		// not keep the next from being tried.
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
