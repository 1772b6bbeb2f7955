package checks

import (
	"maps"
	"net/netip"
	"slices"

	"preflight/facts"
	"preflight/hostfile"
)

// lookupOf is what a node said of a name, without a user; asked is whether it
// was asked at all.
func lookupOf(node *facts.Node, name string) (lookup facts.Lookup, asked bool) {
	if node.Names == nil {
		return facts.Lookup{}, false
	}
	at := slices.IndexFunc(node.Names.Lookups, func(l facts.Lookup) bool { return hostfile.Bare(l.Name) == name })
	if at < 0 {
		return facts.Lookup{}, false
	}
	return node.Names.Lookups[at], true
}

// leadsTo is whether any of these addresses is the node's: one that it holds,
// or the one that it was reached at.
func leadsTo(addresses []string, node *facts.Node) bool {
	var right []netip.Addr
	if node.Net != nil {
		right = addressesOf(node)
	}
	if reached, err := netip.ParseAddr(node.Address); err == nil {
		right = append(right, reached.Unmap())
	}
	return slices.ContainsFunc(addresses, func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && slices.Contains(right, address.Unmap())
	})
}

// mostlyLedTo is the addresses that more than half of the nodes take a name
// for, nil where they do not agree. What leads a node to itself is left out.
func mostlyLedTo(nodes []*facts.Node, resolved func(*facts.Node) []string) []string {
	count, total := map[string]int{}, 0
	for _, node := range nodes {
		addresses := resolved(node)
		if len(addresses) == 0 || isLoopback(addresses[0]) {
			continue
		}
		total++
		for _, address := range slices.Compact(slices.Sorted(slices.Values(addresses))) {
			count[address]++
		}
	}
	var most []string
	for _, address := range slices.Sorted(maps.Keys(count)) {
		if 2*count[address] > total {
			most = append(most, address)
		}
	}
	return most
}
