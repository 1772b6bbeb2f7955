package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// chosenGID is the one that NCCL uses on a RoCE port, if it is there.
func chosenGID(view checks.View, node *facts.Node, port *facts.IBPort) (facts.GID, bool) {
	if port.LinkLayer != "Ethernet" || port.State != "ACTIVE" {
		return facts.GID{}, false
	}
	index := nccl.GIDIndex(*port, launch.RankEnv(node.Env, view.Launch.Exports), nccl.Version(node))
	at := slices.IndexFunc(port.GIDs, func(g facts.GID) bool { return g.Index == index })
	if at < 0 {
		return facts.GID{}, false
	}
	return port.GIDs[at], true
}

// gidKind is what both ends of a connection must have alike: the version of RoCE and
// the family of the address. A port that has no RoCE v2 at all is ib-links' to
// speak of where NCCL looks for one.
func gidKind(view checks.View) func(*facts.Node, *facts.IBPort) string {
	return func(node *facts.Node, port *facts.IBPort) string {
		gid, found := chosenGID(view, node, port)
		index, isNumber := nccl.Number(ranks.Env(view, node)["NCCL_IB_GID_INDEX"].Value)
		given := isNumber && index >= 0
		if !found || gid.Type == "" || !given && !slices.ContainsFunc(port.GIDs, nccl.IsRoCEv2) {
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
func crossedRails(view checks.View, nodes []*facts.Node) []checks.Finding {
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
	var findings []checks.Finding
	for _, node := range nodes {
		var got []string
		for _, name := range names {
			subnet := subnets[name][node]
			if rail := railOf[subnet]; rail != "" && usual[name] != "" && usual[name] != subnet {
				got = append(got, fmt.Sprintf("%s is in %s, where most nodes have %s", name, subnet, rail))
			}
		}
		if got != nil {
			findings = append(findings, checks.Finding{
				Verdict:  checks.Warn,
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
func gidSubnet(view checks.View, node *facts.Node, port *facts.IBPort) string {
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

// unlikePlugins finds libraries that NCCL loads by itself and that only some nodes
// have: a network plugin speaks its own protocol, and ranks that have a tuner choose
// other algorithms than those that have none. Where it is variables that differ,
// env-same says so.
// Source: NVIDIA/nccl 2.30, plugin/net.cc, ncclNetInit, and plugin/tuner.cc.
func unlikePlugins(view checks.View) (findings []checks.Finding) {
	if view.Launch.Accelerator == "cpu" || len(view.All) < 2 {
		return nil
	}
	for _, plugin := range []struct {
		what, variable string
		name           func(*facts.Node) string
	}{
		{"network plugins of NCCL", "NCCL_NET_PLUGIN", func(n *facts.Node) string { return ranks.NCCLNetwork(view, n).Plugin }},
		{"tuner plugins of NCCL", "NCCL_TUNER_PLUGIN", func(n *facts.Node) string {
			if slices.ContainsFunc(n.IB.Libraries, func(l facts.RDMALibrary) bool { return l.Name == "libnccl-tuner.so" }) {
				return "libnccl-tuner.so"
			}
			return ""
		}},
	} {
		chosen := func(n *facts.Node) string {
			env := ranks.Env(view, n)
			return env[plugin.variable].Value + " " + env["NCCL_NET"].Value
		}
		silent := func(n *facts.Node) bool { return n.IB.Libraries == nil }
		if slices.ContainsFunc(view.Nodes, silent) || proof.Common(view.Nodes, chosen) == "" {
			continue
		}
		for _, d := range compare.Differences(compare.Among(view.Nodes, "plugin", plugin.name)) {
			f := d.Finding(plugin.what)
			f.WouldSee = "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10), or a hang at the first collective"
			f.Remedy = []fix.Command{
				ranks.ExportLine(view.Launch, plugin.variable, "none").Remark("all ranks do without, or have it installed where it is not:"),
				fix.On(`echo "$LD_LIBRARY_PATH"; ldconfig -p | grep libnccl-`),
			}
			findings = append(findings, f)
		}
	}
	return findings
}
