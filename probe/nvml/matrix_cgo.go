//go:build linux && cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// matrix asks for every pair of GPUs and puts X on the diagonal.
func matrix(cards []*card, ask func(from, to *card) string) [][]string {
	rows := make([][]string, len(cards))
	for i, from := range cards {
		rows[i] = make([]string, len(cards))
		for j, to := range cards {
			switch {
			case i == j:
				rows[i][j] = "X"
			case from.device != nil && to.device != nil && !from.lost() && !to.lost():
				rows[i][j] = ask(from, to)
			}
		}
	}
	return rows
}

// levels are nvidia-smi's words for what two GPUs share on the PCI bus, by what
// its legend says of them (nvidia-smi topo -m, driver 550). It counts two GPUs of
// one board, behind the board's own switch, to those behind one switch.
var levels = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL:   "PIX",
	nvml.TOPOLOGY_SINGLE:     "PIX",
	nvml.TOPOLOGY_MULTIPLE:   "PXB",
	nvml.TOPOLOGY_HOSTBRIDGE: "PHB",
	nvml.TOPOLOGY_NODE:       "NODE",
	nvml.TOPOLOGY_SYSTEM:     "SYS",
}

// topology is what joins each two GPUs: their NVLinks, else the PCI bus; nothing is
// said of GPUs whose links we were refused, as those may well join them.
func topology(cards []*card) [][]string {
	return matrix(cards, func(from, to *card) string {
		if joining := nvlinksBetween(from, to); joining > 0 {
			return fmt.Sprintf("NV%d", joining)
		}
		if from.wasRefused(linkState) || to.wasRefused(linkState) {
			return ""
		}
		level, ok := told(from.asker, of(from.device.GetTopologyCommonAncestor, to.device), "nvmlDeviceGetTopologyCommonAncestor")
		if !ok {
			return ""
		}
		return levels[level]
	})
}

// nvlinksBetween counts the active links that lead from one GPU to another, or
// else to switches from both: the switches of a machine join all its GPUs.
func nvlinksBetween(from, to *card) int {
	direct := from.activeLinks(func(one link) bool { return one.remote != "" && one.remote == to.seen.Address })
	if direct > 0 {
		return direct
	}
	toSwitch := func(one link) bool { return one.kind == "switch" }
	return min(from.activeLinks(toSwitch), to.activeLinks(toSwitch))
}

func (c *card) activeLinks(which func(link) bool) int {
	count := 0
	for _, one := range c.links {
		if one.active && which(one) {
			count++
		}
	}
	return count
}

// peerReasons are why two GPUs cannot reach each other's memory, by
// nvmlGpuP2PStatus_t (nvml.h).
var peerReasons = map[nvml.GpuP2PStatus]string{
	nvml.P2P_STATUS_OK:                         "ok",
	nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:      "chipset-not-supported",
	nvml.P2P_STATUS_GPU_NOT_SUPPORTED:          "gpu-not-supported",
	nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: "topology-not-supported",
	nvml.P2P_STATUS_DISABLED_BY_REGKEY:         "disabled-by-regkey",
	nvml.P2P_STATUS_NOT_SUPPORTED:              "not-supported",
	nvml.P2P_STATUS_UNKNOWN:                    "unknown",
}

// peers is whether each GPU can read and write each other's memory, or the first
// reason why not.
func peers(cards []*card) [][]string {
	return matrix(cards, func(from, to *card) string {
		answer := ""
		for _, access := range []nvml.GpuP2PCapsIndex{nvml.P2P_CAPS_INDEX_READ, nvml.P2P_CAPS_INDEX_WRITE} {
			call := func() (nvml.GpuP2PStatus, nvml.Return) { return from.device.GetP2PStatus(to.device, access) }
			status, ok := told(from.asker, call, "nvmlDeviceGetP2PStatus")
			if !ok {
				return ""
			}
			if answer = peerReasons[status]; answer != "ok" {
				return answer
			}
		}
		return answer
	})
}
