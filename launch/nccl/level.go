// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
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

// pathTypes are how far two devices of a machine are from each other, nearest first,
// as NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL spell it.
//
// Source: NVIDIA/nccl 2.30.7, graph/topo.cc, topoPathTypeStr; C2C and P2C since 2.27.
var pathTypes = []string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"}

// pathType is the place in pathTypes of what nvidia-smi topo -m calls a connection,
// -1 for unknown. What nvidia-smi calls NODE goes through the processors'
// bridges of one NUMA node, which to NCCL is one host bridge.
func pathType(topology string) int {
	switch {
	case ByNVLink(topology):
		topology = "NVL"
	case topology == "NODE":
		topology = "PHB"
	}
	return slices.Index(pathTypes, topology)
}

// level is the farthest path type that a variable allows, or its old numbers; set is
// false where NCCL reads nothing of it and its default holds.
//
// Source: NVIDIA/nccl 2.30.7, graph/paths.cc, ncclGetLevel.
func level(setting facts.Setting) (farthest int, set bool) {
	value := setting.Value
	if at := slices.Index(pathTypes, value); at >= 0 && at <= slices.Index(pathTypes, "SYS") {
		return at, true
	}
	if value == "" || value[0] < '0' || value[0] > '9' {
		return 0, false
	}
	old := []string{"LOC", "PIX", "PXB", "PHB", "SYS", "SYS"}
	number, _ := Number(value)
	return slices.Index(pathTypes, old[min(number, int64(len(old)-1))]), true
}

// peerLevel is how far apart two GPUs may be for NCCL to have them access each
// other's memory, and the variable that says so, if one does. Up to 2.22 the
// processor decided alone: AMD's and IBM's pass such traffic on.
//
// Source: NVIDIA/nccl, graph/paths.cc, ncclTopoCheckP2p, 2.12 to 2.22 and 2.23 to 2.30.
func peerLevel(node *facts.Node, env launch.Env, gpus int) (farthest int, by facts.Setting) {
	if disable, _ := Number(env.Get("NCCL_P2P_DISABLE").Value); disable == 1 {
		return slices.Index(pathTypes, "LOC"), env.Get("NCCL_P2P_DISABLE")
	}
	if given, set := level(env.Get("NCCL_P2P_LEVEL")); set {
		return given, env.Get("NCCL_P2P_LEVEL")
	}
	near, far := slices.Index(pathTypes, "PXB"), slices.Index(pathTypes, "SYS")
	if node.Host == nil {
		return near, facts.Setting{}
	}
	byProcessor := hostfile.Before(Version(node), "2.23")
	isAMD := node.Host.Arch == "x86_64" && strings.Contains(node.Host.CPU.Model, "AMD")
	if isAMD && (byProcessor || gpus <= 2) || byProcessor && strings.HasPrefix(node.Host.Arch, "ppc64") {
		return far, facts.Setting{}
	}
	return near, facts.Setting{}
}

// Joined is what joins two GPUs of a node, by their places among its cards, as
// nvidia-smi topo -m prints it; "" for unknown.
func Joined(nvml *facts.NVML, a, b int) string { return cell(nvml.Topology, a, b) }

// PeerAccess is what the driver says of whether two GPUs of a node, by their places
// among its cards, reach each other's memory: "ok", or the reason why one of them does
// not. "" is unknown; what it says of one way alone holds for both.
func PeerAccess(nvml *facts.NVML, a, b int) string {
	there, back := cell(nvml.Peers, a, b), cell(nvml.Peers, b, a)
	if there == "" || there == "ok" && back != "" {
		return back
	}
	return there
}

// ByNVLink is whether what joins two GPUs is NVLink: "NV18".
func ByNVLink(joined string) bool { return strings.HasPrefix(joined, "NV") }

func cell(table [][]string, row, column int) string {
	if row >= len(table) || column >= len(table[row]) {
		return ""
	}
	return table[row][column]
}
