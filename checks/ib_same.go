package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

var ibSame = Check{
	ID:       "ib-same",
	Title:    "all nodes have the same RDMA adapters, link layers, partitions and firmware",
	Severity: Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionIB},
	Doc: "A node without an adapter falls back to TCP and cannot talk to the others; a port that is InfiniBand here and Ethernet there cannot connect, " +
		"nor can ports whose partition key, the one NCCL uses, or whose subnet differs, nor RoCE ports whose addresses are of two kinds. A network plugin of NCCL on some nodes only " +
		"has ranks speak two protocols. Another number of adapters, another model, firmware or subnet manager works and is warned of, and so are ports that look cabled crosswise.",
	WouldSee: "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [0]mlx5_0:1/RoCE",
	Run: func(view View) []Finding {
		findings := unlikePlugins(view)
		nodes, reason := usingIB(view)
		switch {
		case reason != "" && len(findings) == 0:
			return skip(reason)
		case reason != "":
			return findings
		}
		return append(findings, judgeAdapters(view, nodes)...)
	},
}

func judgeAdapters(view View, nodes []*facts.Node) (findings []Finding) {
	some := withDevices(nodes)
	for _, node := range nodes {
		if len(node.IB.Devices) == 0 {
			findings = append(findings, Finding{
				Nodes:    []string{node.Name},
				Summary:  "no RDMA adapter, where other nodes have some",
				Want:     deviceNames(some[0]) + ", as on " + some[0].Name,
				WouldSee: "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
				Remedy:   []fix.Command{fix.On(`lspci -nn | grep -iE "infiniband|mellanox"; lsmod | grep _ib`)},
			})
		}
	}
	layers := unlikeLayers(view, some)
	if layers == nil {
		alike := asStated(view, some, "ib.devices.*.ports.*.link_layer")
		layers = onBothSides(compare(among(alike, "link layer", func(n *facts.Node) string { return takenLayer(view, n) })))
	}
	tell := func(differences []difference, what string, verdict Verdict, wouldSee string, command fix.Command) {
		for _, d := range differences {
			f := d.finding(what)
			f.Verdict, f.WouldSee, f.Remedy = verdict, wouldSee, []fix.Command{command}
			findings = append(findings, f)
		}
	}
	ports := func(label string, value func(*facts.Node, *facts.IBPort) string) []difference {
		return onBothSides(compare(byPort(view, some, label, value)...))
	}
	tell(layers, "link layers", Fail, "", fix.On("ibstat"))
	tell(ports(" partition", partition(view)), "partitions", Fail, "Got completion from peer … with status=12 (retry exceeded)",
		fix.On("grep . /sys/class/infiniband/*/ports/*/pkeys/0"))
	tell(ports(" subnet", subnetPrefix), "InfiniBand subnets", Fail, "Call to ibv_modify_qp failed with error Connection timed out",
		fix.On("grep . /sys/class/infiniband/*/ports/*/gids/0   # the first half is the subnet: another fabric, or a cable in another one's switch"))
	tell(ports(" address", gidKind(view)), "RoCE addresses", Fail, "Call to ibv_modify_qp failed with error Connection timed out",
		fix.On("grep . /sys/class/infiniband/*/ports/*/gid_attrs/types/* 2>/dev/null"))
	findings = append(findings, crossedRails(view, some)...)
	tell(ports(" subnet manager LID", managerLID), "subnet managers", Warn, "nothing, if the ports are on one fabric", fix.On("sudo sminfo"))
	tell(onBothSides(compare(among(some, "adapters", deviceNames))), "adapters", Warn, "Detected mixed local Net device counts across ranks", fix.On("ibv_devinfo -l"))
	tell(unlikeCounts(view, some), "ports that NCCL uses", Warn, "Detected mixed local Net device counts across ranks",
		fix.On("ibv_devinfo -l   # and see NCCL_IB_HCA, and what of /dev/infiniband is there"))
	tell(unlikeDevices(view, some, " model", "type", func(d facts.HCA) string { return d.Type }), "adapter models", Warn, "nothing as a rule", fix.On("ibv_devinfo"))
	tell(unlikeDevices(view, some, " firmware", "firmware", func(d facts.HCA) string { return d.Firmware }), "firmware versions", Warn,
		"nothing as a rule; stalls and link errors that only some nodes show", fix.On("sudo mlxfwmanager --query"))
	return findings
}

// unlikeDevices compares a property of each adapter, a fact, among the nodes that are
// as the policy states of it.
func unlikeDevices(view View, nodes []*facts.Node, label, field string, value func(facts.HCA) string) []difference {
	var all []comparison
	for _, a := range byDevice(nodes, label, value) {
		all = append(all, alikeByPolicy(view, a, "ib.devices."+strings.TrimSuffix(a.Name, label)+"."+field)...)
	}
	return onBothSides(compare(all...))
}

// unlikeLayers compares the link layer of each port. Ports of two layers cannot connect
// whatever a policy says, so it leaves out those that miss it and parts nobody.
func unlikeLayers(view View, nodes []*facts.Node) []difference {
	const label = " link layer"
	all := byPort(view, nodes, label, linkLayer)
	for i, c := range all {
		port := strings.ReplaceAll(strings.TrimSuffix(c.Name, label), ":", ".ports.")
		all[i].Among = asStated(view, c.Among, "ib.devices."+port+".link_layer")
	}
	return onBothSides(compare(all...))
}

// onBothSides leaves out what one side does not have, which is told with the adapters or by
// ib-links; nil for none.
func onBothSides(all []difference) (found []difference) {
	for _, d := range all {
		d.Deviations = slices.DeleteFunc(d.Deviations, func(dev deviation) bool {
			return d.Split && strings.Contains(dev.Got, shown("")+" on ") || !d.Split && (dev.Got == "" || dev.Want == "")
		})
		if len(d.Deviations) > 0 {
			found = append(found, d)
		}
	}
	return found
}

func withDevices(nodes []*facts.Node) []*facts.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return len(n.IB.Devices) == 0 })
}
