package launch

import (
	"net/netip"
	"slices"

	"preflight/facts"
	"preflight/hostfile"
)

// lookedUp is what a name or an address resolves to on a node, in the order
// given. A name that nobody asked for there, or had no answer for in time, is
// not known.
func lookedUp(names *facts.Names, host string) (addresses []netip.Addr, known bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, true
	}
	if names == nil {
		return nil, false
	}
	at := slices.IndexFunc(names.Lookups, func(l facts.Lookup) bool { return hostfile.Bare(l.Name) == host })
	if at < 0 || names.Lookups[at].Unanswered {
		return nil, false
	}
	for _, text := range names.Lookups[at].Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses, true
}
