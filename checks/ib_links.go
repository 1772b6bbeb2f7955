package checks

import (
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var ibLinks = Check{
	ID:       "ib-links",
	Title:    "the InfiniBand and RoCE ports NCCL will use are up, at full rate and addressable",
	Severity: Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionIB},
	Doc: "NCCL uses every ACTIVE port of the adapters that NCCL_IB_HCA selects, and falls back to TCP without a word where there is none; ranks that " +
		"fell back cannot talk to ranks that did not. A port that is down everywhere is taken for unused, one that is down here and up on most nodes is not. " +
		"It also takes libibverbs with the adapters' driver and /dev/infiniband/uverbs*, which containers often lack, a usable GID for RoCE, and ports of one link layer. " +
		"Ports slower than their like on other nodes are warned of, and adapters whose PCIe slot is.",
	WouldSee: "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
	Run:      judgePorts,
}

func judgePorts(view View) []Finding {
	nodes, reason := usingIB(view)
	if reason != "" {
		return skip(reason)
	}
	findings := downPorts(view, nodes)
	down := map[string]bool{}
	for _, f := range findings {
		down[f.Nodes[0]] = true
	}
	networks, someWork := map[*facts.Node]launch.Network{}, false
	for _, node := range nodes {
		networks[node] = ncclNetwork(view, node)
		someWork = someWork || len(networks[node].Ports) > 0
	}
	hasV2 := portsWithV2(networks)
	for _, node := range nodes {
		network := networks[node]
		switch {
		case network.Obstacle == launch.ObstacleInactive && down[node.Name]: // told
		case network.Obstacle != "":
			findings = append(findings, obstructed(view, node, network, someWork)...)
		default:
			findings = append(findings, overIWARP(view, node, network.Ports)...)
			findings = append(findings, mixedLayers(view, node, network.Ports)...)
			findings = append(findings, unaddressable(view, node, network.Ports, hasV2)...)
		}
	}
	findings = append(append(findings, slowPorts(view, nodes)...), narrowSlots(networks, nodes)...)
	if !someWork && len(findings) == 0 {
		return skip("no InfiniBand or RoCE port is up on any node")
	}
	return findings
}

// usingIB is the nodes whose ranks would use InfiniBand or RoCE, or why there
// are none. A node without an adapter counts: the others have some.
func usingIB(view View) (nodes []*facts.Node, reason string) {
	if view.Launch.Accelerator == "cpu" {
		return nil, "ranks on cpu talk by gloo, over TCP"
	}
	if len(view.All) < 2 {
		return nil, "ranks of one node need no network"
	}
	hasDevices, disabled := false, 0
	for _, node := range view.Nodes {
		hasDevices = hasDevices || len(node.IB.Devices) > 0
		if keptOffRDMA(rankEnv(view, node)) {
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

// ncclNetwork is what NCCL on a node will reach the others by.
func ncclNetwork(view View, node *facts.Node) launch.Network {
	return Remember(view, networkOn{node}, func() launch.Network { return launch.NetworkOf(view.Launch, node) })
}

type networkOn struct{ node *facts.Node }

// keptOffRDMA is whether what ranks see has NCCL leave adapters alone.
func keptOffRDMA(env map[string]facts.Setting) bool {
	return isOn(env["NCCL_IB_DISABLE"].Value) || strings.EqualFold(env["NCCL_NET"].Value, "Socket")
}

func deviceNames(node *facts.Node) string {
	var names []string
	for _, device := range node.IB.Devices {
		names = append(names, device.Name)
	}
	return strings.Join(names, ", ")
}
