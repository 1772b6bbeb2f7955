package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// unaddressable finds RoCE ports whose GID is not there: the one that
// NCCL_IB_GID_INDEX names, or any of RoCE v2 for NCCL to find by itself.
func unaddressable(view View, node *facts.Node, index facts.Setting) []Finding {
	var findings []Finding
	for _, device := range node.IB.Devices {
		for _, port := range device.Ports {
			if port.State != "ACTIVE" || port.LinkLayer != "Ethernet" {
				continue
			}
			f := Finding{
				Nodes:    []string{node.Name},
				WouldSee: "Call to ibv_modify_qp failed with error No data available (or Invalid argument, or Connection timed out)",
				Fix:      []string{onNodes("cat /sys/class/infiniband/%s/ports/%s/gid_attrs/types/*", device.Name, fmt.Sprint(port.Port))},
			}
			wanted, isNumber := launch.Number(index.Value)
			switch {
			case isNumber && wanted >= 0 && !hasGID(port, func(g facts.GID) bool { return int64(g.Index) == wanted }):
				f.Summary = "NCCL_IB_GID_INDEX names an empty GID of " + device.Name
				f.Got = origin(view, index) + "; there is " + gidIndexes(port)
				f.Want = "an index that is there on this node, or the variable unset with NCCL 2.21 or newer"
			case (!isNumber || wanted < 0) && !hasGID(port, func(g facts.GID) bool { return g.Type == "RoCE v2" }):
				f.Verdict = Warn
				f.Summary = device.Name + " has no RoCE v2 GID"
				f.Got = gidIndexes(port)
				f.Want = "an IPv4 address on its interface " + port.NetDev
			default:
				continue
			}
			findings = append(findings, f)
		}
	}
	return findings
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
