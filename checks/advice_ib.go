package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// adviseAdapters has NCCL leave ports aside that could not connect to the
// others, and take the RoCE address it would find by itself in a newer release:
// only where the adapters of all nodes are alike, and by themselves the ranks
// would do otherwise.
func adviseAdapters(view View) []AdvisedEnv {
	if view.Launch.Accelerator == "cpu" || !all(view.Nodes, func(n *facts.Node) bool { return n.IB != nil && len(n.IB.Verbs) > 0 }) {
		return nil
	}
	names := commonName(view.Nodes, func(n *facts.Node) string { return activePorts(view, n) })
	isFree := func(node *facts.Node) bool {
		env := rankEnv(view, node)
		return !keptOffRDMA(env) && env["NCCL_IB_HCA"].Value == ""
	}
	if !strings.Contains(names, "/Ethernet") || !all(view.Nodes, isFree) {
		return nil // InfiniBand ports alone need no advice
	}
	if advised := adviseHCA(view, names); advised != nil {
		return advised // no Ethernet port is left that would need an index
	}
	return adviseGID(view)
}

// activePorts spells the ports of a node that NCCL would take, with their link
// layers: "mlx5_0:1/InfiniBand mlx5_2:1/Ethernet".
func activePorts(view View, node *facts.Node) string {
	var ports []string
	for _, port := range launch.HCAPorts(view.Launch, node) {
		ports = append(ports, port.Name()+"/"+port.LinkLayer)
	}
	slices.Sort(ports)
	return strings.Join(ports, " ")
}

// adviseHCA parts InfiniBand from Ethernet ports: those of one layer cannot
// connect to those of the other, and NCCL takes both.
// Source: NVIDIA/nccl 2.30, transport/net_ib/connect.cc.
func adviseHCA(view View, ports string) []AdvisedEnv {
	var fabric, others []string
	for port := range strings.FieldsSeq(ports) {
		name, layer, _ := strings.Cut(port, "/")
		if layer == "InfiniBand" {
			fabric = append(fabric, name)
			continue
		}
		others = append(others, name)
	}
	value := "=" + strings.Join(fabric, ",")
	if fabric == nil || others == nil || !fix.IsPlain(value) {
		return nil
	}
	return []AdvisedEnv{{Name: "NCCL_IB_HCA", Value: value, Why: fmt.Sprintf(
		"these InfiniBand ports are active on all %d nodes; %s is Ethernet, which cannot connect to them, and NCCL would take it too",
		len(view.Nodes), strings.Join(others, ", "))}}
}

// adviseGID is the index that NCCL 2.21 and later finds on every RoCE port of
// every node, where the ranks have an older one that takes the first.
func adviseGID(view View) []AdvisedEnv {
	found, differs := map[int]bool{}, false
	for _, node := range view.Nodes {
		env := launch.RankEnv(node.Env, view.Launch.Exports)
		version := ncclVersion(node)
		if version == "" {
			return nil
		}
		for _, port := range launch.HCAPorts(view.Launch, node) {
			if port.LinkLayer != "Ethernet" {
				continue
			}
			index := launch.GIDIndex(*port.IBPort, env, "")
			if !hasGID(*port.IBPort, func(g facts.GID) bool { return g.Index == index && isV2(g) }) {
				return nil
			}
			found[index] = true
			differs = differs || launch.GIDIndex(*port.IBPort, env, version) != index
		}
	}
	if len(found) != 1 || !differs {
		return nil
	}
	for index := range found {
		return []AdvisedEnv{{Name: "NCCL_IB_GID_INDEX", Value: fmt.Sprint(index), Why: fmt.Sprintf(
			"every active port of all %d nodes has its RoCE v2 address there, and this NCCL takes index 0 by itself", len(view.Nodes))}}
	}
	return nil
}
