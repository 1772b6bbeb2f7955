// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

var Same = checks.Check{
	ID:       "ib-same",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionIB},
	Run: func(view checks.View) []checks.Finding {
		findings := unlikePlugins(view)
		nodes, reason := ranks.UsingIB(view)
		switch {
		case reason != "" && len(findings) == 0:
			return checks.Skipped(reason)
		case reason != "":
			return findings
		}
		return append(findings, judgeAdapters(view, nodes)...)
	},
}

func judgeAdapters(view checks.View, nodes []*facts.Node) (findings []checks.Finding) {
	some := compare.Without(nodes, func(n *facts.Node) bool { return len(n.IB.Devices) == 0 })
	for _, node := range nodes {
		if len(node.IB.Devices) == 0 {
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  "no RDMA adapter, but other nodes have some",
				Want:     ranks.DeviceNames(some[0]) + ", as on " + some[0].Name,
				WouldSee: "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
				Remedy:   []fix.Command{fix.On(`lspci -nn | grep -iE "infiniband|mellanox"; lsmod | grep _ib`).As(fix.Look)},
			})
		}
	}
	all := portsOf(view, some)
	layers := all.unlikeLayers(view)
	if layers == nil {
		alike := compare.AsStated(view, some, "ib.devices.*.ports.*.link_layer")
		layers = onBothSides(compare.Differences(compare.Among(alike, "link layer", func(n *facts.Node) string { return takenLayer(view, n) })))
	}
	report := func(differences []compare.Difference, what string, verdict checks.Verdict, wouldSee string, command fix.Command) {
		common := checks.Finding{Verdict: verdict, WouldSee: wouldSee, Remedy: []fix.Command{command.As(fix.Look)}}
		findings = append(findings, compare.Findings(what, differences, common)...)
	}
	unlike := func(label string, value func(*facts.Node, *facts.IBPort) string) []compare.Difference {
		return onBothSides(compare.Differences(all.compared(label, value)...))
	}
	report(layers, "link layers", checks.Fail, "", fix.On("ibstat"))
	report(unlike(" partition", partition(view)), "partitions", checks.Fail, "Got completion from peer … with status=12 (retry exceeded)",
		fix.On("grep . /sys/class/infiniband/*/ports/*/pkeys/0"))
	findings = append(findings, all.limitedMembers(view)...)
	report(unlike(" subnet", subnetPrefix), "InfiniBand subnets", checks.Fail, "Call to ibv_modify_qp failed with error Connection timed out",
		fix.On("grep . /sys/class/infiniband/*/ports/*/gids/0   # the first half is the subnet; another one means another fabric, or a cable in the wrong switch"))
	report(unlike(" address", gidKind(view)), "RoCE addresses", checks.Fail, "Call to ibv_modify_qp failed with error Connection timed out",
		fix.On("grep . /sys/class/infiniband/*/ports/*/gid_attrs/types/* 2>/dev/null"))
	findings = append(findings, all.crossedRails(view)...)
	report(unlike(" subnet manager LID", managerLID), "subnet managers", checks.Warn, "nothing, if the ports are on one fabric", fix.On("sudo sminfo"))
	report(onBothSides(compare.Differences(compare.Among(some, "adapters", ranks.DeviceNames))), "adapters", checks.Warn, "Detected mixed local Net device counts across ranks", fix.On("ibv_devinfo -l"))
	report(unlikeCounts(view, some), "ports that NCCL uses", checks.Warn, "Detected mixed local Net device counts across ranks",
		fix.On("ibv_devinfo -l; ls /dev/infiniband   # compare with NCCL_IB_HCA"))
	report(unlikeDevices(view, some, " model", "type", func(d *facts.HCA) string { return d.Type }), "adapter models", checks.Warn, "usually nothing", fix.On("ibv_devinfo"))
	report(unlikeDevices(view, some, " firmware", "firmware", func(d *facts.HCA) string { return d.Firmware }), "firmware versions", checks.Warn,
		"usually nothing; stalls and link errors on some nodes only", fix.On("sudo mlxfwmanager --query"))
	return findings
}

// unlikeDevices compares a property of each adapter between nodes. The property is a fact, so it
// leaves out nodes that do not meet the policy's expectations for that fact.
func unlikeDevices(view checks.View, nodes []*facts.Node, label, field string, value func(*facts.HCA) string) []compare.Difference {
	var all []compare.Comparison
	seen := map[string]bool{}
	for _, node := range nodes {
		for i := range node.IB.Devices {
			name := node.IB.Devices[i].Name
			if seen[name] {
				continue
			}
			seen[name] = true
			of := func(n *facts.Node) string {
				for i := range n.IB.Devices {
					if device := &n.IB.Devices[i]; device.Name == name {
						return value(device)
					}
				}
				return ""
			}
			all = append(all, compare.ByPolicy(view, compare.Among(nodes, name+label, of), "ib.devices."+name+"."+field)...)
		}
	}
	return onBothSides(compare.Differences(all...))
}

// unlikeLayers compares the link layer of each port. It leaves out nodes that miss the policy.
// However, the policy does not divide the nodes, because ports of two link layers cannot connect,
// whatever the policy says.
func (p ports) unlikeLayers(view checks.View) []compare.Difference {
	const label = " link layer"
	all := p.compared(label, func(_ *facts.Node, port *facts.IBPort) string { return port.LinkLayer })
	for i, c := range all {
		port := strings.ReplaceAll(strings.TrimSuffix(c.Name, label), ":", ".ports.")
		all[i].Among = compare.AsStated(view, c.Among, "ib.devices."+port+".link_layer")
	}
	return onBothSides(compare.Differences(all...))
}

// onBothSides leaves out deviations in which one side has no value, because ib-links or the
// comparison of adapters reports those. It returns nil if no deviation remains.
func onBothSides(all []compare.Difference) (found []compare.Difference) {
	for _, d := range all {
		d.Deviations = slices.DeleteFunc(d.Deviations, func(dev compare.Deviation) bool {
			return d.Split && strings.Contains(dev.Got, compare.Shown("")+" on ") || !d.Split && (dev.Got == "" || dev.Want == "")
		})
		if len(d.Deviations) > 0 {
			found = append(found, d)
		}
	}
	return found
}

// compared returns one comparison for each port. All of them compare the same property.
func (p ports) compared(label string, value func(*facts.Node, *facts.IBPort) string) (all []compare.Comparison) {
	for _, name := range p.names {
		all = append(all, compare.Among(p.nodes, name+label, func(n *facts.Node) string {
			if port := p.on[name][n]; port != nil {
				return value(n, port)
			}
			return ""
		}))
	}
	return all
}

// takenLayer returns the link layer of the ports that NCCL uses. It returns "" if NCCL uses no
// port, or ports of several link layers, which ib-links reports.
func takenLayer(view checks.View, node *facts.Node) string {
	ports := ranks.NCCLNetwork(view, node).Ports
	if len(ports) == 0 || slices.ContainsFunc(ports, func(port nccl.HCAPort) bool { return port.LinkLayer != ports[0].LinkLayer }) {
		return ""
	}
	return ports[0].LinkLayer
}

// fullMember is the bit of a partition key that marks a full member. If two ports both lack it,
// neither accepts packets from the other.
//
// Source: InfiniBand Architecture Specification 1.4, volume 1, 10.9.3; Linux 6.8,
// drivers/infiniband/core/cache.c, ib_find_cached_pkey, prefers a full member.
const fullMember = 0x8000

// subnetPrefix returns the first half of an InfiniBand port's address. Ports of two subnets can
// connect only through a router, which requires an FLID in their addresses.
// Source: NVIDIA/nccl 2.30, transport/net_ib/connect.cc, ncclIbExtractFlid.
func subnetPrefix(_ *facts.Node, port *facts.IBPort) string {
	if port.LinkLayer != "InfiniBand" || port.State != "ACTIVE" || len(port.GIDs) == 0 || port.GIDs[0].Index != 0 {
		return ""
	}
	address, err := netip.ParseAddr(port.GIDs[0].GID)
	if raw := address.As16(); err != nil || raw[4] != 0 || raw[5] != 0 {
		return ""
	}
	half, _ := address.Prefix(64) // Prefix fails only for IPv4
	return half.String()
}

func managerLID(_ *facts.Node, port *facts.IBPort) string {
	if port.LinkLayer != "InfiniBand" || port.State != "ACTIVE" {
		return ""
	}
	return fmt.Sprint(port.SMLID)
}

// unlikeCounts returns the nodes on which NCCL uses a different number of ports than on other
// nodes, although the same adapters are up. The reason is NCCL_IB_HCA in a node's own files, or
// device nodes that a container lacks.
func unlikeCounts(view checks.View, nodes []*facts.Node) []compare.Difference {
	up := func(node *facts.Node) string {
		var ports []string
		for _, device := range node.IB.Devices {
			for _, port := range device.Ports {
				ports = append(ports, fmt.Sprint(device.Name, port.Port, port.State))
			}
		}
		return strings.Join(ports, " ")
	}
	usual := compare.GroupBy(nodes, up)[0].Value
	nodes = compare.Without(nodes, func(n *facts.Node) bool { return up(n) != usual })
	return onBothSides(compare.Differences(compare.Among(nodes, "ports", func(n *facts.Node) string {
		if count := len(ranks.NCCLNetwork(view, n).Ports); count > 0 {
			return fmt.Sprint(count)
		}
		return ""
	})))
}

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

// gidKind returns a function for the properties of a GID that both ends of a connection must share:
// the version of RoCE and the address family. ib-links reports ports on which NCCL looks for RoCE
// v2 and does not find it.
func gidKind(view checks.View) func(*facts.Node, *facts.IBPort) string {
	return func(node *facts.Node, port *facts.IBPort) string {
		gid, found := chosenGID(view, node, port)
		if !found || gid.Type == "" || missesV2(view, node, port) {
			return ""
		}
		return gidWords(gid)
	}
}

// gidWords returns the kind of a GID, such as "RoCE v2 IPv4".
func gidWords(gid facts.GID) string {
	family := "IPv6"
	if address, err := netip.ParseAddr(gid.GID); err == nil && address.Is4In6() {
		family = "IPv4"
	}
	return strings.TrimPrefix(gid.Type, "IB/") + " " + family
}

// crossedRails warns about a port whose address is in the subnet that most nodes have on another
// port. The reason is that two cables or two addresses were swapped. Subnets that merely differ are
// correct in a routed fabric.
func (p ports) crossedRails(view checks.View) []checks.Finding {
	isEthernet := func(n *facts.Node) bool { return slices.ContainsFunc(n.IB.Devices, hasEthernet) }
	if !slices.ContainsFunc(p.nodes, isEthernet) {
		return nil
	}
	subnets := map[string]map[*facts.Node]string{}
	usual, railOf := map[string]string{}, map[string]string{} // each port → the subnet of most nodes, and each subnet → the port
	for _, name := range p.names {
		subnets[name] = map[*facts.Node]string{}
		count := map[string]int{}
		for node, port := range p.on[name] {
			subnet := gidSubnet(view, node, port)
			subnets[name][node] = subnet
			count[subnet]++
			if subnet != "" && 2*count[subnet] > len(p.nodes) {
				usual[name], railOf[subnet] = subnet, name
			}
		}
	}
	crossed := map[*facts.Node][]string{}
	for _, name := range p.names {
		for _, node := range p.nodes {
			subnet := subnets[name][node]
			if rail := railOf[subnet]; rail != "" && usual[name] != "" && usual[name] != subnet {
				crossed[node] = append(crossed[node], fmt.Sprintf("%s is in %s, which most nodes have on %s", name, subnet, rail))
			}
		}
	}
	return portFindings(p.nodes, crossed, "; ", checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "a RoCE port is in the subnet that most nodes have on another port",
		Want:     "each port in the subnet that the same port has on the other nodes",
		WouldSee: "Call to ibv_modify_qp failed with error Connection timed out, or slow collectives if a router connects the subnets",
		Remedy:   []fix.Command{fix.On("ip -br addr; rdma link").As(fix.Look), fix.Note("swap the cables or the addresses of these ports")},
	})
}

func hasEthernet(device facts.HCA) bool {
	return slices.ContainsFunc(device.Ports, func(p facts.IBPort) bool { return p.LinkLayer == "Ethernet" })
}

// gidSubnet returns the network of a RoCE port's IPv4 address, with the prefix that its interface
// has.
func gidSubnet(view checks.View, node *facts.Node, port *facts.IBPort) string {
	gid, found := chosenGID(view, node, port)
	address, err := netip.ParseAddr(gid.GID)
	if !found || err != nil || !address.Is4In6() || node.Net == nil {
		return ""
	}
	network, known := names.NetworkOf(node, address.Unmap().String())
	if !known {
		return ""
	}
	return network.String()
}

// unlikePlugins returns findings for libraries that NCCL loads by itself and that only some nodes
// have. A network plugin has its own protocol. Ranks with a tuner choose other algorithms than
// ranks without a tuner. env-same reports variables that differ.
// Source: NVIDIA/nccl 2.30, plugin/net.cc, ncclNetInit, and plugin/tuner.cc.
func unlikePlugins(view checks.View) (findings []checks.Finding) {
	if !ranks.UsesNCCL(view) || len(view.All) < 2 {
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
			return env.Get(plugin.variable).Value + " " + env.Get("NCCL_NET").Value
		}
		silent := func(n *facts.Node) bool { return n.IB.Libraries == nil }
		if slices.ContainsFunc(view.Nodes, silent) || proof.Common(view.Nodes, chosen) == "" {
			continue
		}
		findings = append(findings, compare.Findings(plugin.what, compare.Differences(compare.Among(view.Nodes, "plugin", plugin.name)), checks.Finding{
			WouldSee: "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10), or a hang at the first collective",
			Remedy: []fix.Command{
				ranks.ExportLine(view.Launch, plugin.variable, "none").Remark("no rank then uses the plugin"),
				fix.On(`echo "$LD_LIBRARY_PATH"; ldconfig -p | grep libnccl-`).As(fix.Look),
				fix.Note("or install the plugin on every node"),
			},
		})...)
	}
	return findings
}
