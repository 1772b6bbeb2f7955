package ranks

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/launch/nccl"
)

// FleetNCCL is the NCCL version most nodes have, "" when none showed one. It
// stands in for a node whose python could not be asked.
func FleetNCCL(v checks.View) string {
	seen := slices.DeleteFunc(slices.Clone(v.Nodes), func(n *facts.Node) bool { return nccl.Version(n) == "" })
	if len(seen) == 0 {
		return ""
	}
	return compare.GroupBy(seen, nccl.Version)[0].Value
}

// NCCLNetwork is what NCCL on a node will reach the others by.
func NCCLNetwork(view checks.View, node *facts.Node) nccl.Network {
	return checks.Remember(view, networkOn{node}, func() nccl.Network { return nccl.NetworkOf(view.Launch, node) })
}

type networkOn struct{ node *facts.Node }

// UsingIB is the nodes whose ranks would use InfiniBand or RoCE, or why there
// are none. A node without an adapter counts: the others have some.
func UsingIB(view checks.View) (nodes []*facts.Node, reason string) {
	if view.Launch.Accelerator == "cpu" {
		return nil, "ranks on cpu talk by gloo, over TCP"
	}
	if len(view.All) < 2 {
		return nil, "ranks of one node need no network"
	}
	hasDevices, disabled := false, 0
	for _, node := range view.Nodes {
		hasDevices = hasDevices || len(node.IB.Devices) > 0
		if nccl.KeptOffRDMA(Env(view, node)) {
			disabled++
			continue
		}
		nodes = append(nodes, node)
	}
	switch {
	case !hasDevices:
		return nil, "no node has an InfiniBand or RoCE adapter"
	case disabled == len(view.Nodes):
		return nil, "the environment keeps NCCL off InfiniBand on every node"
	}
	return nodes, ""
}

func DeviceNames(node *facts.Node) string {
	var names []string
	for _, device := range node.IB.Devices {
		names = append(names, device.Name)
	}
	return strings.Join(names, ", ")
}
