package launch

import (
	"slices"

	"preflight/facts"
)

// Distance is how far a GPU is from an RDMA adapter of its machine, in the words
// of nvidia-smi topo -m, nearest first: PIX (one PCIe switch), PXB (several), PHB
// (the processor's own bridge), NODE (within a NUMA node) and SYS (another one);
// "" when the machine did not show both on its bus, or neither a bridge that both
// are under nor both NUMA nodes, as virtual machines do not.
//
// Source: the legend of nvidia-smi topo -m (driver 550); NVIDIA/nccl 2.30, graph/topo.h,
// PATH_PIX to PATH_SYS.
func Distance(node *facts.Node, card int, adapter facts.HCA) string {
	if node.GPU == nil || node.NVML == nil || card >= len(node.NVML.Cards) {
		return ""
	}
	address := node.NVML.Cards[card].Address
	at := slices.IndexFunc(node.GPU.OnBus, func(g facts.PCIGPU) bool { return g.Address == address })
	if at < 0 {
		return ""
	}
	gpu := node.GPU.OnBus[at]
	if len(gpu.Path) == 0 || len(adapter.Path) == 0 {
		return ""
	}
	shared := 0
	for shared < min(len(gpu.Path), len(adapter.Path)) && gpu.Path[shared] == adapter.Path[shared] {
		shared++
	}
	// Below what both share, one switch leaves a port and the device itself.
	apart := max(len(gpu.Path), len(adapter.Path)) - shared
	switch {
	case shared > 1 && apart <= 2:
		return "PIX"
	case shared > 1:
		return "PXB"
	case shared == 1:
		return "PHB"
	case gpu.NUMANode < 0 || adapter.NUMANode < 0:
		return ""
	case gpu.NUMANode == adapter.NUMANode:
		return "NODE"
	}
	return "SYS"
}
