package checks

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// elsewhere finds nodes that a name leads to another address than most: there
// may well be a store, of another job. Where one answered it is a warning, for
// one machine may have several addresses.
func elsewhere(endpoint string, nodes []*facts.Node, seen map[string]*facts.Endpoint) []Finding {
	host, _ := splitEndpoint(endpoint)
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	groups := alike(host, nodes, seen)
	verdict := func(names []string) Verdict {
		if slices.ContainsFunc(names, func(name string) bool { return seen[name].Failed != "" }) {
			return Fail
		}
		return Warn
	}
	if len(groups) > 1 && len(groups[0].Nodes) == len(groups[1].Nodes) {
		f := splitName(host, groups)
		f.Verdict = verdict(f.Nodes)
		return []Finding{f}
	}
	var findings []Finding
	for _, g := range groups[min(1, len(groups)):] {
		findings = append(findings, Finding{
			Verdict: verdict(g.Nodes),
			Nodes:   g.Nodes,
			Summary: fmt.Sprintf("%s leads to another address than on %s", host, strings.Join(groups[0].Nodes, ", ")),
			Got:     g.Value, Want: groups[0].Value,
			Remedy: []fix.Command{fix.On("getent ahosts %s", fix.Host(host)), fix.On("sudoedit /etc/hosts")},
		})
	}
	return findings
}

// alike groups nodes by what a name leads to, the largest group first. Answers
// that share an address are alike: of a node without IPv6 the resolver hides
// the IPv6 ones. A node's loopback answer for its own name leads where it should.
func alike(host string, nodes []*facts.Node, seen map[string]*facts.Endpoint) []group {
	type answers struct {
		addresses, nodes []string
	}
	var gathered []answers
	for _, node := range nodes {
		addresses := slices.Clone(seen[node.Name].Addresses)
		if isCalled(node, host, nodes, seen) {
			addresses = slices.DeleteFunc(addresses, isLoopback)
		}
		if len(addresses) == 0 {
			continue
		}
		merged := answers{addresses, []string{node.Name}}
		gathered = slices.DeleteFunc(gathered, func(g answers) bool {
			if !overlap(g.addresses, addresses) {
				return false
			}
			merged.addresses, merged.nodes = append(g.addresses, merged.addresses...), append(g.nodes, merged.nodes...)
			return true
		})
		gathered = append(gathered, merged)
	}
	var groups []group
	for _, g := range gathered {
		groups = append(groups, group{Value: strings.Join(slices.Compact(slices.Sorted(slices.Values(g.addresses))), " "), Nodes: g.nodes})
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}

// isCalled is whether a name is a node's own: it is listed by it, or the others
// are led to the address it was reached at.
func isCalled(node *facts.Node, host string, nodes []*facts.Node, seen map[string]*facts.Endpoint) bool {
	if hostfile.Bare(node.Name) == host {
		return true
	}
	return slices.ContainsFunc(nodes, func(other *facts.Node) bool {
		return other != node && slices.Contains(seen[other.Name].Addresses, node.Address)
	})
}
