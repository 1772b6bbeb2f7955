package fabric

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/nccl"
)

// unaddressable finds RoCE ports whose GID is not there: the one that
// NCCL_IB_GID_INDEX names, or any of RoCE v2 for NCCL to find by itself, without which
// a port cannot connect to its like on nodes that have one.
func unaddressable(view checks.View, node *facts.Node, ports []nccl.HCAPort, hasV2 map[string]bool) []checks.Finding {
	var findings []checks.Finding
	index := ranks.Env(view, node)["NCCL_IB_GID_INDEX"]
	for _, port := range ports {
		if port.LinkLayer != "Ethernet" || port.Adapter.Kind == "RNIC" {
			continue
		}
		device := port.Adapter.Name
		f := checks.Finding{
			Nodes:    []string{node.Name},
			WouldSee: "Call to ibv_modify_qp failed with error No data available (or Invalid argument, or Connection timed out)",
			Remedy:   []fix.Command{fix.On("cat /sys/class/infiniband/%s/ports/%s/gid_attrs/types/*", fix.Name(device), fix.Number(port.Port))},
		}
		wanted, isNumber := nccl.Number(index.Value)
		switch given := isNumber && wanted >= 0; {
		case given && !slices.ContainsFunc(port.GIDs, func(g facts.GID) bool { return int64(g.Index) == wanted }):
			f.Summary = "NCCL_IB_GID_INDEX names an empty GID of " + device
			f.Got = ranks.Origin(view, index) + "; there is " + gidIndexes(*port.IBPort)
			f.Want = "an index that is there on this node, or the variable unset with NCCL 2.21 or newer"
		case !given && !slices.ContainsFunc(port.GIDs, nccl.IsRoCEv2):
			f.Summary = device + " has no RoCE v2 GID"
			f.Got = gidIndexes(*port.IBPort)
			f.Want = "an IPv4 address on its interface " + port.NetDev
			if !hasV2[port.Name()] {
				f.Verdict = checks.Warn
			}
		default:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

// portsWithV2 are the ports that any node has a RoCE v2 GID on, by name.
func portsWithV2(networks map[*facts.Node]nccl.Network) map[string]bool {
	names := map[string]bool{}
	for _, network := range networks {
		for _, port := range network.Ports {
			if port.LinkLayer == "Ethernet" && slices.ContainsFunc(port.GIDs, nccl.IsRoCEv2) {
				names[port.Name()] = true
			}
		}
	}
	return names
}

func gidIndexes(port facts.IBPort) string {
	var parts []string
	for _, gid := range port.GIDs {
		parts = append(parts, fmt.Sprintf("%d (%s)", gid.Index, gid.Type))
	}
	if parts == nil {
		return "no GID"
	}
	return "GID " + strings.Join(parts, ", ")
}

// overIWARP finds ports that NCCL takes by their link layer and cannot connect: iWARP
// has no GIDs to find a peer by, and NCCL does not ask what a port speaks.
// Source: NVIDIA/nccl 2.30, transport/net_ib/init.cc, ncclIbInitDevices; Linux 6.8,
// drivers/infiniband/core/sysfs.c, node_type_show.
func overIWARP(view checks.View, node *facts.Node, ports []nccl.HCAPort) []checks.Finding {
	isIWARP := func(port nccl.HCAPort) bool { return port.Adapter.Kind == "RNIC" }
	if !slices.ContainsFunc(ports, isIWARP) {
		return nil
	}
	return []checks.Finding{{
		Nodes:    []string{node.Name},
		Summary:  "NCCL would take adapters that speak iWARP, by which it cannot connect",
		Got:      spelledPorts(ports, isIWARP),
		Want:     "InfiniBand and RoCE only",
		WouldSee: "Call to ibv_modify_qp failed",
		Remedy:   leaveOut(view, node, ports, isIWARP),
	}}
}

// mixedLayers warns of a node that has NCCL take InfiniBand and Ethernet ports: which
// of them meet is the topology's to decide, and those of two layers cannot connect.
// Source: NVIDIA/nccl 2.30, transport/net_ib/connect.cc, ncclIbConnect.
func mixedLayers(view checks.View, node *facts.Node, ports []nccl.HCAPort) []checks.Finding {
	isEthernet := func(port nccl.HCAPort) bool { return port.LinkLayer == "Ethernet" && port.Adapter.Kind != "RNIC" }
	isFabric := func(port nccl.HCAPort) bool { return port.LinkLayer == "InfiniBand" }
	if !slices.ContainsFunc(ports, isEthernet) || !slices.ContainsFunc(ports, isFabric) {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Nodes:    []string{node.Name},
		Summary:  "NCCL would take InfiniBand and RoCE ports, which cannot connect to each other",
		Got:      "InfiniBand " + spelledPorts(ports, isFabric) + ", RoCE " + spelledPorts(ports, isEthernet),
		Want:     "ports of one link layer, chosen by NCCL_IB_HCA",
		WouldSee: "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE",
		Remedy:   leaveOut(view, node, ports, isEthernet),
	}}
}

func spelledPorts(ports []nccl.HCAPort, is func(nccl.HCAPort) bool) string {
	var names []string
	for _, port := range ports {
		if is(port) {
			names = append(names, port.Name())
		}
	}
	return strings.Join(names, ", ")
}

// leaveOut has NCCL_IB_HCA select the other ports.
func leaveOut(view checks.View, node *facts.Node, ports []nccl.HCAPort, is func(nccl.HCAPort) bool) []fix.Command {
	others := spelledPorts(ports, func(port nccl.HCAPort) bool { return !is(port) })
	value := "=" + strings.ReplaceAll(others, ", ", ",")
	if others == "" {
		return []fix.Command{ranks.ExportLine(view.Launch, "NCCL_IB_DISABLE", "1").Remark("nothing is left, and all nodes talk TCP")}
	}
	if !fix.IsPlain(value) {
		return []fix.Command{fix.On("ls /sys/class/infiniband   # and name those that are meant in NCCL_IB_HCA")}
	}
	commands := []fix.Command{ranks.ExportLine(view.Launch, "NCCL_IB_HCA", value)}
	if given := ranks.Env(view, node)["NCCL_IB_HCA"]; given.Value != "" {
		commands = append(ranks.TakeOut(view, given), commands...)
	}
	return commands
}
