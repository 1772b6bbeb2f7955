package ranks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/launch/nccl"
)

// NCCLVersion is the version of the NCCL that torch gets on the node, "" when
// the node did not show one.
func NCCLVersion(node *facts.Node) string {
	if node.Python == nil || len(node.Python.NCCL) == 0 {
		return ""
	}
	return node.Python.NCCL[0].Version
}

// FleetNCCL is the NCCL version most nodes have, "" when none showed one. It
// stands in for a node whose python could not be asked.
func FleetNCCL(v checks.View) string {
	var seen []*facts.Node
	for _, node := range v.Nodes {
		if NCCLVersion(node) != "" {
			seen = append(seen, node)
		}
	}
	if len(seen) == 0 {
		return ""
	}
	return compare.GroupBy(seen, NCCLVersion)[0].Value
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
		if KeptOffRDMA(Env(view, node)) {
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

// KeptOffRDMA is whether what ranks see has NCCL leave adapters alone.
func KeptOffRDMA(env map[string]facts.Setting) bool {
	return IsOn(env["NCCL_IB_DISABLE"].Value) || strings.EqualFold(env["NCCL_NET"].Value, "Socket")
}

func DeviceNames(node *facts.Node) string {
	var names []string
	for _, device := range node.IB.Devices {
		names = append(names, device.Name)
	}
	return strings.Join(names, ", ")
}

func Gigabits(rate int64) string { return fmt.Sprintf("%g Gbit/s", float64(rate)/1e9) }

func HasGID(port facts.IBPort, is func(facts.GID) bool) bool {
	for _, gid := range port.GIDs {
		if is(gid) {
			return true
		}
	}
	return false
}

func IsV2(gid facts.GID) bool { return gid.Type == "RoCE v2" }

// ExpectedNCCL is the version torch asks for, else that of the library it
// brought, "" when neither says.
func ExpectedNCCL(python *facts.Python) string {
	if python.Torch.NCCLWheel != "" {
		return python.Torch.NCCLWheel
	}
	if brought := slices.IndexFunc(python.NCCL, IsTorchs); brought >= 0 {
		return python.NCCL[brought].Version
	}
	return ""
}

func IsTorchs(library facts.NCCLLibrary) bool {
	return library.From == "wheel" || library.From == "torch"
}
