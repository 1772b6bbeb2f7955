// SPDX-License-Identifier: Apache-2.0

// Package hostsys contains what preflight needs from the machine on which it runs. It resolves
// names as the machine's C library does ([Names]), and runs programs that end when preflight ends
// ([Child], [Run], [Start]).
//
// It knows nothing about nodes, launches and facts, and imports no other package of preflight.
package hostsys

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// lookupsAtOnce is the number of simultaneous lookups if each lookup sends packets. With a dead
	// name server, all lookups together then take a few timeouts instead of one timeout each.
	lookupsAtOnce = 128
	// childrenAtOnce is the number of simultaneous lookups if each lookup starts a process.
	childrenAtOnce = 8
	// notFound is the exit status of getent(1) for a key that no source has.
	notFound = 2
)

// Names resolves host names as getaddrinfo of this machine's C library does, which ssh, torch and
// gloo call. nsswitch.conf(5) defines where names come from.
//
// Names that occur once in /etc/hosts are resolved from that file. Names for which Go's resolver
// gives the same answer as the C library are resolved with Go's resolver (files and dns, combined
// as usual). Everything else (sss, ldap, resolve, an action in brackets) needs getent(1), which is
// linked with the C library. If getent is missing or fails, Go's resolver is used.
//
// A Names is safe for concurrent use. It uses the content that the files had when it was made.
type Names struct {
	Sources string      // the hosts line of nsswitch.conf with one space between words, "" for none
	Hosts   []HostsLine // the lines of /etc/hosts

	sources []source
	byName  map[string][]HostsLine // maps a name in lower case to its lines, one per address
	own     string                 // this machine's name
	getent  string                 // path of getent(1), "" if it is missing
}

// HostsLine is one line of /etc/hosts: an address and its names.
type HostsLine struct {
	Address netip.Addr
	Names   []string
}

// source is one source of names and the actions in brackets after it.
type source struct{ name, actions string }

// NewNames reads how names are resolved on the machine whose files are below root, "" for this
// machine. A missing file is normal: musl has no nsswitch.conf, and a missing hosts file means that
// no names are defined there.
func NewNames(root string) *Names {
	nsswitch, _ := os.ReadFile(filepath.Join("/", root, "etc/nsswitch.conf"))
	hosts, _ := os.ReadFile(filepath.Join("/", root, "etc/hosts"))
	n := &Names{Hosts: parseHosts(string(hosts)), byName: map[string][]HostsLine{}}
	n.Sources, n.sources = parseNSSwitch(string(nsswitch))
	n.own, _ = os.Hostname()              // on an error, no name counts as this machine's
	n.getent, _ = exec.LookPath("getent") // "" on an error
	for _, line := range n.Hosts {
		for _, name := range line.Names {
			name = strings.ToLower(name)
			known := func(l HostsLine) bool { return l.Address == line.Address }
			if !slices.ContainsFunc(n.byName[name], known) {
				n.byName[name] = append(n.byName[name], line)
			}
		}
	}
	return n
}

// AtOnce returns the number of lookups that may run at the same time without harm.
func (n *Names) AtOnce() int {
	if n.getent != "" && !n.goAgrees("any name") {
		return childrenAtOnce
	}
	return lookupsAtOnce
}

// LookupNetIP returns the addresses of a name in getaddrinfo's order (RFC 6724), without
// IPv4-mapped IPv6 addresses. network is "ip", "ip4" or "ip6". If name is an address, LookupNetIP
// returns that address. The error is a [*net.DNSError] if the name is unknown or a name server
// failed. It is ctx's error if ctx ended first, and otherwise getent's message.
func (n *Names) LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{address}, nil
	}
	lines := slices.DeleteFunc(slices.Clone(n.inHosts(name)), func(line HostsLine) bool { return !isOf(network, line.Address) })
	switch {
	case len(lines) == 1:
		return []netip.Addr{lines[0].Address}, nil
	case n.getent == "" || len(lines) == 0 && n.goAgrees(name):
		return n.lookupGo(ctx, network, name)
	}
	addresses, err := n.askGetent(ctx, network, name)
	if _, is := errors.AsType[*getentTrouble](err); is {
		if addresses, err := n.lookupGo(ctx, network, name); err == nil {
			return addresses, nil
		}
	}
	return addresses, err
}

// LookupAtLast is like LookupNetIP, but after patience it takes the addresses of /etc/hosts for a
// name that name servers have not answered. getaddrinfo reads that file too, once it has waited
// long enough for the name servers before it.
func (n *Names) LookupAtLast(ctx context.Context, patience time.Duration, network, name string) (addresses []netip.Addr, err error) {
	if slices.Contains(n.sources, source{name: "files"}) && n.goAgrees(name) {
		for _, line := range n.byName[strings.ToLower(name)] {
			if isOf(network, line.Address) {
				addresses = append(addresses, line.Address)
			}
		}
	}
	if addresses == nil {
		return n.LookupNetIP(ctx, network, name)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if found, err := n.LookupNetIP(ctx, network, name); err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return found, err
	}
	return addresses, nil
}

// inHosts returns the lines of /etc/hosts for a name. It returns none unless nsswitch.conf lists
// that file first and without actions. A name with several lines is left to getaddrinfo, which does
// not keep their order.
func (n *Names) inHosts(name string) []HostsLine {
	if len(n.sources) == 0 || n.sources[0] != (source{name: "files"}) {
		return nil
	}
	return n.byName[strings.ToLower(name)]
}

// goAgrees reports whether Go's resolver gives the same answer for a name as the C library. Two
// modules answer only for a few names: myhostname for the machine itself (nss-myhostname(8)), and
// mdns for names below .local (RFC 6762, section 3).
func (n *Names) goAgrees(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, from := range n.sources {
		switch {
		case from.name == "myhostname":
			mine := strings.HasSuffix(name, "localhost") || strings.HasSuffix(name, ".localdomain") ||
				name == "_gateway" || name == "_outbound" || name == strings.ToLower(n.own)
			if mine || from.actions != "" {
				return false
			}
		case strings.HasPrefix(from.name, "mdns"):
			if strings.HasSuffix(name, ".local") {
				return false
			}
		case from.name != "files" && from.name != "dns" || from.actions != "":
			return false
		}
	}
	return true
}

// goResolver returns Go's own resolver on Linux, which reads nsswitch.conf, hosts and resolv.conf.
// goAgrees knows when that is not enough. On other systems goResolver returns a resolver that uses
// the system's library.
func goResolver() *net.Resolver {
	system := net.DefaultResolver
	return &net.Resolver{PreferGo: system.PreferGo || runtime.GOOS == "linux", Dial: system.Dial}
}

func (n *Names) lookupGo(ctx context.Context, network, name string) ([]netip.Addr, error) {
	addresses, err := goResolver().LookupNetIP(ctx, network, name)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, err
}

// LookupAddress looks up the name of an address, in /etc/hosts and at the name servers. The name
// itself is of no use, because nothing compares it.
func LookupAddress(ctx context.Context, address string) error {
	_, err := goResolver().LookupAddr(ctx, address)
	return err
}

// getentTrouble is the error if getent gave no answer.
type getentTrouble struct{ complaint string }

func (t *getentTrouble) Error() string { return "getent: " + t.complaint }

// askGetent asks the C library by running getent, because only a program linked with the library
// can load its modules. It starts one child per name. With several names, a child could not tell
// which name had no answer.
func (n *Names) askGetent(ctx context.Context, network, name string) ([]netip.Addr, error) {
	database := map[string]string{"ip": "ahosts", "ip4": "ahostsv4", "ip6": "ahostsv6"}[network]
	stdout, stderr, err := Child{
		Path: n.getent,
		Args: []string{database, "--", name},
		Env:  append(os.Environ(), "LC_ALL=C"),
	}.Run(ctx)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() == notFound:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	case err != nil:
		return nil, &getentTrouble{Complaint(stderr, err)}
	}
	addresses := parseAhosts(network, stdout)
	if len(addresses) == 0 {
		return nil, &getentTrouble{fmt.Sprintf("no address for %q in what it printed", name)}
	}
	return addresses, nil
}

// parseAhosts returns the addresses in the output of "getent ahosts NAME", which has one line per
// address and socket type.
//
//	10.0.0.1        STREAM w1.example.org
//	10.0.0.1        DGRAM
func parseAhosts(network, output string) (addresses []netip.Addr) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "STREAM" {
			continue
		}
		address, err := netip.ParseAddr(fields[0])
		if err != nil || !isOf(network, address) || slices.Contains(addresses, address) {
			continue
		}
		addresses = append(addresses, address)
	}
	return addresses
}

// isOf reports whether an address belongs to a network. getent ahostsv6 prints IPv4 addresses as
// IPv4-mapped IPv6 addresses.
func isOf(network string, address netip.Addr) bool {
	switch network {
	case "ip4":
		return address.Is4()
	case "ip6":
		return address.Is6() && !address.Is4In6()
	}
	return true
}

// parseNSSwitch returns the hosts line of nsswitch.conf with one space between words, and its
// sources.
func parseNSSwitch(text string) (line string, sources []source) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		database, rest, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(database) != "hosts" {
			continue
		}
		rest = strings.Join(strings.Fields(rest), " ")
		for left := rest; left != ""; left = strings.TrimSpace(left) {
			if actions, ok := strings.CutPrefix(left, "["); ok {
				actions, left, _ = strings.Cut(actions, "]")
				if len(sources) > 0 {
					sources[len(sources)-1].actions += actions
				}
				continue
			}
			end := strings.IndexAny(left, " [")
			if end < 0 {
				end = len(left)
			}
			sources = append(sources, source{name: left[:end]})
			left = left[end:]
		}
		return rest, sources
	}
	return "", nil
}

// parseHosts reads /etc/hosts. Lines without a valid address are skipped, as in every resolver.
func parseHosts(text string) []HostsLine {
	var lines []HostsLine
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if address, err := netip.ParseAddr(fields[0]); err == nil {
			lines = append(lines, HostsLine{address, fields[1:]})
		}
	}
	return lines
}
