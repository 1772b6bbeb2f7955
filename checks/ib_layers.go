package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// overIWARP finds ports that NCCL takes by their link layer and cannot connect: iWARP
// has no GIDs to find a peer by, and NCCL does not ask what a port speaks.
// Source: NVIDIA/nccl 2.30, transport/net_ib/init.cc, ncclIbInitDevices; Linux 6.8,
// drivers/infiniband/core/sysfs.c, node_type_show.
func overIWARP(view View, node *facts.Node, ports []launch.HCAPort) []Finding {
	isIWARP := func(port launch.HCAPort) bool { return port.Adapter.Kind == "RNIC" }
	if !slices.ContainsFunc(ports, isIWARP) {
		return nil
	}
	return []Finding{{
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
func mixedLayers(view View, node *facts.Node, ports []launch.HCAPort) []Finding {
	isEthernet := func(port launch.HCAPort) bool { return port.LinkLayer == "Ethernet" && port.Adapter.Kind != "RNIC" }
	isFabric := func(port launch.HCAPort) bool { return port.LinkLayer == "InfiniBand" }
	if !slices.ContainsFunc(ports, isEthernet) || !slices.ContainsFunc(ports, isFabric) {
		return nil
	}
	return []Finding{{
		Verdict:  Warn,
		Nodes:    []string{node.Name},
		Summary:  "NCCL would take InfiniBand and RoCE ports, which cannot connect to each other",
		Got:      "InfiniBand " + spelledPorts(ports, isFabric) + ", RoCE " + spelledPorts(ports, isEthernet),
		Want:     "ports of one link layer, chosen by NCCL_IB_HCA",
		WouldSee: "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE",
		Remedy:   leaveOut(view, node, ports, isEthernet),
	}}
}

func spelledPorts(ports []launch.HCAPort, is func(launch.HCAPort) bool) string {
	var names []string
	for _, port := range ports {
		if is(port) {
			names = append(names, port.Name())
		}
	}
	return strings.Join(names, ", ")
}

// leaveOut has NCCL_IB_HCA select the other ports.
func leaveOut(view View, node *facts.Node, ports []launch.HCAPort, is func(launch.HCAPort) bool) []fix.Command {
	others := spelledPorts(ports, func(port launch.HCAPort) bool { return !is(port) })
	value := "=" + strings.ReplaceAll(others, ", ", ",")
	if others == "" {
		return []fix.Command{exportLine(view.Launch, "NCCL_IB_DISABLE", "1").Remark("nothing is left, and all nodes talk TCP")}
	}
	if !fix.IsPlain(value) {
		return []fix.Command{fix.On("ls /sys/class/infiniband   # and name those that are meant in NCCL_IB_HCA")}
	}
	commands := []fix.Command{exportLine(view.Launch, "NCCL_IB_HCA", value)}
	if given := rankEnv(view, node)["NCCL_IB_HCA"]; given.Value != "" {
		commands = append(takeOut(view, given), commands...)
	}
	return commands
}
