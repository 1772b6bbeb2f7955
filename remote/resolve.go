package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// nsswitchFile says where glibc, and so ssh, takes host names from.
const nsswitchFile = "/etc/nsswitch.conf"

// getentGrace is how long getent's pipe may stay open after it was killed.
const getentGrace = 200 * time.Millisecond

// lookup resolves the host name, once.
func (a *attempt) lookup(ctx context.Context) ([]netip.Addr, *Error) {
	host := a.target.host
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	family := strings.Replace(a.target.network, "tcp", "ip", 1)
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, family, host)
	if len(addresses) == 0 && ctx.Err() == nil && a.client.namesByModule() {
		addresses = ofFamily(family, askGetent(ctx, host))
	}
	if len(addresses) > 0 {
		return addresses, nil
	}
	return nil, a.unresolved(ctx, err)
}

// unresolved is a name without an address. err is what Go's resolver said.
func (a *attempt) unresolved(ctx context.Context, err error) *Error {
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
		return &Error{Stage: StageResolve, Cause: Interrupted, Err: cause}
	}
	words := resolverWords(err)
	if ctx.Err() != nil {
		words = fmt.Sprintf("the resolver did not answer in time (waited %s)", a.after())
		err = fmt.Errorf("lookup %s: %s", a.target.host, words)
	}
	return &Error{Stage: StageResolve, Cause: NameUnknown, Err: err, Detail: map[string]string{
		"name": a.target.host, "resolver": words,
	}}
}

// namesByModule is whether this machine has sources of names that Go's own
// resolver cannot ask: sss, ldap, nis, mdns, myhostname.
func (c *Client) namesByModule() bool {
	text, err := os.ReadFile(c.nsswitch)
	return err == nil && hasModules(string(text))
}

// hasModules reads the hosts line of nsswitch.conf(5) for a source that is a
// module of glibc's. systemd's "resolve" is none: Go asks its stub over DNS.
func hasModules(nsswitch string) bool {
	for line := range strings.Lines(nsswitch) {
		line, _, _ = strings.Cut(line, "#")
		database, sources, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(database) != "hosts" {
			continue
		}
		return slices.ContainsFunc(strings.Fields(withoutActions(sources)), func(source string) bool {
			return !slices.Contains([]string{"files", "dns", "resolve"}, source)
		})
	}
	return false
}

// withoutActions takes out what stands in brackets between the sources, as in
// "mdns [NOTFOUND=return SUCCESS=merge] dns".
func withoutActions(sources string) string {
	for {
		before, rest, found := strings.Cut(sources, "[")
		if !found {
			return sources
		}
		_, after, _ := strings.Cut(rest, "]")
		sources = before + " " + after
	}
}

// askGetent asks glibc, whose modules only a program linked with it can load:
// ssh resolves a name that they know. Without an answer there is no address,
// and what Go's resolver said stands.
func askGetent(ctx context.Context, name string) []netip.Addr {
	getent := exec.CommandContext(ctx, "getent", "ahosts", "--", name)
	getent.Env = append(os.Environ(), "LC_ALL=C")
	getent.WaitDelay = getentGrace
	output, err := getent.Output()
	if err != nil {
		return nil
	}
	return parseAhosts(string(output))
}

// parseAhosts reads the output of `getent ahosts NAME`, a line for an address
// and each socket type:
//
//	10.0.0.1        STREAM w1.example.org
//	10.0.0.1        DGRAM
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

// ofFamily keeps the addresses of "ip4" or "ip6"; "ip" is both.
func ofFamily(family string, addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(addresses, func(address netip.Addr) bool {
		return family == "ip4" && !address.Is4() || family == "ip6" && !address.Is6()
	})
}
