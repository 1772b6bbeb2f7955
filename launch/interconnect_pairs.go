package launch

import (
	"strings"

	"preflight/facts"
)

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
