package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/drill/outcome"
	"preflight/facts"
)

// reachTime is for reaching an endpoint, all its addresses together. One lost
// packet is sent again within it.
const reachTime = 1500 * time.Millisecond

// errNoAddress is a name that is known and leads nowhere.
var errNoAddress = errors.New("the name has no address that can be connected to")

// resolve is what a host is on this node, in the order torch tries it: that of
// getaddrinfo (RFC 6724), which puts IPv6 first where it can be used, and where
// IPv4 addresses follow as mapped ones (socket.cpp, SocketConnectOp).
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	// A missing file is normal: musl has none.
	nsswitch, _ := os.ReadFile("/etc/nsswitch.conf")
	if getent, err := exec.LookPath("getent"); err == nil && asksModules(string(nsswitch)) {
		return askGetent(ctx, getent, host)
	}
	resolver := net.Resolver{PreferGo: true}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, err
}

// asksModules is whether the hosts line of nsswitch.conf(5) has glibc ask a
// source that Go's own resolver does not know, or combine sources in its own way.
func asksModules(nsswitch string) bool {
	for line := range strings.Lines(nsswitch) {
		line, _, _ = strings.Cut(line, "#")
		database, sources, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(database) == "hosts" {
			return slices.ContainsFunc(strings.Fields(sources), func(source string) bool {
				return source != "files" && source != "dns"
			})
		}
	}
	return false
}

// notFound is the exit status of getent(1) for a key that no source has.
const notFound = 2

// askGetent asks glibc, whose modules only a program linked with it can load.
func askGetent(ctx context.Context, getent, host string) ([]netip.Addr, error) {
	output, complaint, err := runChild(ctx, getent, "ahosts", "--", host)
	var exit *exec.ExitError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == notFound:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	default:
		return nil, fmt.Errorf("getent: %s", cmp.Or(lastLine(complaint), err.Error()))
	}
	addresses := parseAhosts(output)
	if len(addresses) == 0 {
		return nil, errNoAddress
	}
	return addresses, nil
}

// parseAhosts reads the output of `getent ahosts NAME`: a line for an address
// and each socket type.
func parseAhosts(output string) []netip.Addr {
	var addresses []netip.Addr
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "STREAM" {
			continue
		}
		if address, err := netip.ParseAddr(fields[0]); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// unresolved says in words why a name did not resolve.
func unresolved(ctx context.Context, err error) string {
	var dns *net.DNSError
	switch {
	case ctx.Err() != nil:
		return "no answer from the name service in time"
	case !errors.As(err, &dns):
		return err.Error()
	case dns.Server != "" && !dns.IsNotFound:
		return fmt.Sprintf("name server %s: %s", dns.Server, dns.Err)
	}
	return dns.Err
}

// callFirst connects to the first address that takes the call. The error is
// that of the first that could have: one without a route is passed over, by
// torch too.
func callFirst(ctx context.Context, addresses []netip.Addr, port int) (net.Conn, error) {
	if len(addresses) == 0 {
		return nil, errNoAddress
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	var worst error
	for i, address := range addresses {
		end, _ := ctx.Deadline()
		// Each gets its share of the time, so that one that drops the call does
		// not keep the next from being tried.
		dialer := net.Dialer{Timeout: time.Until(end) / time.Duration(len(addresses)-i)}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
		if err == nil {
			return conn, nil
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
