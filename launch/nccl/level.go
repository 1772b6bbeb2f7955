// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// Distance returns how far a GPU is from an RDMA adapter of its machine, in the words of nvidia-smi
// topo -m. From nearest to farthest, these are PIX (one PCIe switch), PXB (several switches), PHB
// (the processor's own bridge), NODE (within a NUMA node) and SYS (another NUMA node). Distance
// returns "" if the machine does not show both devices on its bus. It also returns "" if the
// machine shows neither a common bridge nor both NUMA nodes, as in virtual machines.
//
// Source: the legend of nvidia-smi topo -m (driver 550); NVIDIA/nccl 2.30, graph/topo.h, PATH_PIX
// to PATH_SYS.
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
	// If there is one switch, only a port and the device itself are left after the common part.
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

// pathTypes lists the kinds of paths between two devices of a machine, nearest first, as written in
// NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL.
//
// Source: NVIDIA/nccl 2.30.7, graph/topo.cc, topoPathTypeStr; C2C and P2C since 2.27.
var pathTypes = []string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"}

// pathType returns the index in pathTypes of a connection that nvidia-smi topo -m names, -1 if it
// is unknown. nvidia-smi's NODE crosses several host bridges of one NUMA node, which NCCL treats as
// one host bridge.
func pathType(topology string) int {
	switch {
	case ByNVLink(topology):
		topology = "NVL"
	case topology == "NODE":
		topology = "PHB"
	}
	return slices.Index(pathTypes, topology)
}

// level returns the farthest path type that a variable allows. The variable has a name or an old
// number. set is false if NCCL cannot parse the value and uses its default.
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

// peerLevel returns how far apart two GPUs may be for NCCL to use peer access, and the variable
// that sets this limit, if any. Up to 2.22 the default depended only on the processor: those of AMD
// and IBM forward such traffic.
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

// Joined returns what connects the GPUs a and b of a node, as nvidia-smi topo -m prints it; "" if
// unknown. a and b are indexes among the node's cards.
func Joined(nvml *facts.NVML, a, b int) string { return cell(nvml.Topology, a, b) }

// PeerAccess returns whether the GPUs a and b of a node reach each other's memory, according to the
// driver. a and b are indexes among the node's cards. The result is "ok" or the reason why one
// direction fails, "" if unknown. If only one direction is known, that direction counts for both.
func PeerAccess(nvml *facts.NVML, a, b int) string {
	there, back := cell(nvml.Peers, a, b), cell(nvml.Peers, b, a)
	if there == "" || there == "ok" && back != "" {
		return back
	}
	return there
}

// ByNVLink reports whether a connection between two GPUs is NVLink, such as "NV18".
func ByNVLink(joined string) bool { return strings.HasPrefix(joined, "NV") }

func cell(table [][]string, row, column int) string {
	if row >= len(table) || column >= len(table[row]) {
		return ""
	}
	return table[row][column]
}
