package checks

import (
	"fmt"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// unaddressable finds RoCE ports whose GID is not there: the one that
// NCCL_IB_GID_INDEX names, or any of RoCE v2 for NCCL to find by itself, without which
// a port cannot connect to its like on nodes that have one.
func unaddressable(view View, node *facts.Node, ports []launch.HCAPort, hasV2 map[string]bool) []Finding {
	var findings []Finding
	index := rankEnv(view, node)["NCCL_IB_GID_INDEX"]
	for _, port := range ports {
		if port.LinkLayer != "Ethernet" || port.Adapter.Kind == "RNIC" {
			continue
		}
		device := port.Adapter.Name
		f := Finding{
			Nodes:    []string{node.Name},
			WouldSee: "Call to ibv_modify_qp failed with error No data available (or Invalid argument, or Connection timed out)",
			Remedy:   []fix.Command{fix.On("cat /sys/class/infiniband/%s/ports/%s/gid_attrs/types/*", fix.Name(device), fix.Number(port.Port))},
		}
		wanted, isNumber := launch.Number(index.Value)
		switch given := isNumber && wanted >= 0; {
		case given && !hasGID(*port.IBPort, func(g facts.GID) bool { return int64(g.Index) == wanted }):
			f.Summary = "NCCL_IB_GID_INDEX names an empty GID of " + device
			f.Got = origin(view, index) + "; there is " + gidIndexes(*port.IBPort)
			f.Want = "an index that is there on this node, or the variable unset with NCCL 2.21 or newer"
		case !given && !hasGID(*port.IBPort, isV2):
			f.Summary = device + " has no RoCE v2 GID"
			f.Got = gidIndexes(*port.IBPort)
			f.Want = "an IPv4 address on its interface " + port.NetDev
			if !hasV2[port.Name()] {
				f.Verdict = Warn
			}
		default:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

func isV2(gid facts.GID) bool { return gid.Type == "RoCE v2" }

// portsWithV2 are the ports that any node has a RoCE v2 GID on, by name.
func portsWithV2(networks map[*facts.Node]launch.Network) map[string]bool {
	names := map[string]bool{}
	for _, network := range networks {
		for _, port := range network.Ports {
			if port.LinkLayer == "Ethernet" && hasGID(*port.IBPort, isV2) {
				names[port.Name()] = true
			}
		}
	}
	return names
}

func hasGID(port facts.IBPort, is func(facts.GID) bool) bool {
	for _, gid := range port.GIDs {
		if is(gid) {
			return true
		}
	}
	return false
}

func gidIndexes(port facts.IBPort) string {
	var parts []string
	for _, gid := range port.GIDs {
		parts = append(parts, fmt.Sprintf("%d (%s)", gid.Index, gid.Type))
	}
	if parts == nil {
		return "no GID"
	}
	return "GID " + strings.Join(parts, ", ")
}
