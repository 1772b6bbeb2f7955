package checks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// chosenGID is the one that NCCL uses on a RoCE port, if it is there.
func chosenGID(view View, node *facts.Node, port *facts.IBPort) (facts.GID, bool) {
	if port.LinkLayer != "Ethernet" || port.State != "ACTIVE" {
		return facts.GID{}, false
	}
	index := launch.GIDIndex(*port, launch.RankEnv(node.Env, view.Launch.Exports), ncclVersion(node))
	at := slices.IndexFunc(port.GIDs, func(g facts.GID) bool { return g.Index == index })
	if at < 0 {
		return facts.GID{}, false
	}
	return port.GIDs[at], true
}

// gidKind is what both ends of a connection must have alike: the version of RoCE and
// the family of the address. A port that has no RoCE v2 at all is ib-links' to
// speak of where NCCL looks for one.
func gidKind(view View) func(*facts.Node, *facts.IBPort) string {
	return func(node *facts.Node, port *facts.IBPort) string {
		gid, found := chosenGID(view, node, port)
		index, isNumber := launch.Number(rankEnv(view, node)["NCCL_IB_GID_INDEX"].Value)
		given := isNumber && index >= 0
		if !found || gid.Type == "" || !given && !hasGID(*port, isV2) {
			return ""
		}
		family := "IPv6"
		if address, err := netip.ParseAddr(gid.GID); err == nil && address.Is4In6() {
			family = "IPv4"
		}
		return strings.TrimPrefix(gid.Type, "IB/") + " " + family
	}
}

// crossedRails warns of a port whose address is in the subnet that most nodes have on
// another one of their ports: two cables that were swapped, or two addresses. Subnets
// that merely differ are right where a fabric routes.
func crossedRails(view View, nodes []*facts.Node) []Finding {
	names, ports := portsByName(view, nodes)
	subnets := map[string]map[*facts.Node]string{}
	usual, railOf := map[string]string{}, map[string]string{} // the subnet that most nodes have on a port, and the port by it
	for _, name := range names {
		subnets[name] = map[*facts.Node]string{}
		count := map[string]int{}
		for _, port := range ports[name] {
			subnet := gidSubnet(view, port.node, port.IBPort)
			subnets[name][port.node] = subnet
			count[subnet]++
			if subnet != "" && 2*count[subnet] > len(nodes) {
				usual[name], railOf[subnet] = subnet, name
			}
		}
	}
	var findings []Finding
	for _, node := range nodes {
		var got []string
		for _, name := range names {
			subnet := subnets[name][node]
			if rail := railOf[subnet]; rail != "" && usual[name] != "" && usual[name] != subnet {
				got = append(got, fmt.Sprintf("%s is in %s, where most nodes have %s", name, subnet, rail))
			}
		}
		if got != nil {
			findings = append(findings, Finding{
				Verdict:  Warn,
				Nodes:    []string{node.Name},
				Summary:  "RoCE ports are in each other's subnets",
				Got:      strings.Join(got, "; "),
				Want:     "every port in the subnet of its like on the other nodes",
				WouldSee: "Call to ibv_modify_qp failed with error Connection timed out, or slow collectives where a router lies between",
				Remedy:   []fix.Command{fix.On("ip -br addr; rdma link")},
			})
		}
	}
	return findings
}

// gidSubnet is the network that a RoCE port's IPv4 address is in by its interface.
func gidSubnet(view View, node *facts.Node, port *facts.IBPort) string {
	gid, found := chosenGID(view, node, port)
	address, err := netip.ParseAddr(gid.GID)
	if !found || err != nil || !address.Is4In6() || node.Net == nil {
		return ""
	}
	for _, i := range node.Net.Interfaces {
		for _, text := range i.Addresses {
			if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr() == address.Unmap() {
				return prefix.Masked().String()
			}
		}
	}
	return ""
}
