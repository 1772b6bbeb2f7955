// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"slices"

	"preflight/checks"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
)

var ContainerNetworks = checks.Check{
	ID:       "container-networks",
	Title:    "no network of a container engine covers addresses of the cluster, nor will the next",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Doc: "Docker gives every network of its own a subnet out of pools that it takes to be nobody's: 172.17.0.0/16 to 172.31.0.0/16 and then 192.168.0.0/20 and on. A site that uses these itself " +
		"loses the peers whose addresses such a subnet covers: the kernel sends what is for them into the bridge, where nobody is, until the network is removed. Judged are the addresses of all " +
		"nodes against the bridges of each. A bridge that only covers a part of the network that the node is on is warned of: the next node may get an address there. " +
		"So are pools that are used up, and those of which one of the next networks would cover a peer: Docker passes over the networks that the machine itself is on, and knows of no others. They are those of " +
		"/etc/docker/daemon.json, and judged where there is a docker0. Whether an overlay network is attachable only its manager tells.",
	WouldSee: "No route to host, of some peers and from one node alone",
	Run:      judgeBridges,
}

func judgeBridges(view checks.View) (findings []checks.Finding) {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	addresses := addressesOf(view)
	for _, node := range view.Nodes {
		if ranks.ContainerOf(node) != "" {
			continue // its interfaces are a container's own
		}
		_, network, _ := names.HolderOf(node, node.Address)
		for _, bridge := range node.Net.Interfaces {
			for _, subnet := range subnetsOf(bridge) {
				covered := addresses.within(subnet, node)
				if covered != nil || network.IsValid() && network.Overlaps(subnet) {
					findings = append(findings, covers(node, bridge, subnet, network, covered))
				}
			}
		}
		findings = append(findings, judgePools(node, addresses)...)
	}
	return findings
}

// held is an address at which a node was reached, or by which its ranks will talk.
type held struct {
	netip.Addr
	by *facts.Node
}

// heldByAll are those of all nodes, in order.
type heldByAll []held

func addressesOf(view checks.View) (all heldByAll) {
	choices := placementOf(view).choices
	for _, node := range view.Everywhere() {
		for _, text := range []string{node.Address, choices[node].Address} {
			if address, err := netip.ParseAddr(text); err == nil {
				all = append(all, held{address.Unmap(), node})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return a.Compare(b.Addr) })
	return all
}

// within are the nodes other than one that have an address in a network.
func (all heldByAll) within(network netip.Prefix, but *facts.Node) (names []string) {
	from, _ := slices.BinarySearchFunc(all, network.Addr(), func(h held, first netip.Addr) int { return h.Compare(first) })
	for _, h := range all[from:] {
		if !network.Contains(h.Addr) {
			break
		}
		if h.by != but && !slices.Contains(names, h.by.Name) {
			names = append(names, h.by.Name)
		}
	}
	return names
}

// subnetsOf are the networks that a bridge of a container engine has, none of any other
// interface. An address of a single host covers nobody else.
func subnetsOf(bridge facts.Interface) (subnets []netip.Prefix) {
	if bridge.Kind == "veth" || !bridge.ForContainers() {
		return nil
	}
	for _, text := range bridge.IPv4() {
		if prefix, err := netip.ParsePrefix(text); err == nil && !prefix.IsSingleIP() {
			subnets = append(subnets, prefix.Masked())
		}
	}
	return subnets
}

func covers(node *facts.Node, bridge facts.Interface, subnet, network netip.Prefix, peers []string) checks.Finding {
	f := checks.Finding{
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("%s of a container engine covers the addresses of %s: what is for them goes into it", bridge.Name, hostfile.Fold(peers)),
		Got:     fmt.Sprintf("%s has %s", bridge.Name, subnet),
		Want:    "subnets for containers that nobody else uses",
		Remedy:  dockerPools(node),
	}
	if peers == nil {
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("%s of a container engine overlaps the network that the node is on", bridge.Name)
		f.Got += fmt.Sprintf(", the node is on %s", network)
		f.WouldSee = "nothing, until a node gets an address there: then No route to host"
	}
	return f
}
