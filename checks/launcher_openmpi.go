package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// openMPIInterface judges the eth0 that DeepSpeed names to Open MPI unless
// --launcher_args does. It is a warning: where Open MPI goes over UCX it asks
// nobody for that name.
func openMPIInterface(view View, note hostfile.Note) []Finding {
	var findings []Finding
	for _, node := range view.Nodes {
		switch {
		case !node.Reached:
		case node.Net == nil:
			findings = append(findings, unknown(node, "whether it has an eth0, which DeepSpeed names to Open MPI, was not seen"))
		case !slices.ContainsFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == "eth0" && i.Up }):
			findings = append(findings, Finding{
				Verdict:  Warn,
				Nodes:    []string{node.Name},
				Summary:  "DeepSpeed has Open MPI use eth0, and no such interface is up here",
				Got:      "--mca btl_tcp_if_include eth0",
				Want:     "an interface of the network between the nodes, or that network itself",
				Remedy:   []fix.Command{fix.Here("ssh {node} ip -br address"), fix.Here("deepspeed --launcher_args '--mca btl_tcp_if_include %s' …", fix.Name(peerNetwork(node)))},
				WouldSee: "WARNING: An invalid value was given for btl_tcp_if_include. … Value: eth0 Message: Unknown interface name",
			})
		}
	}
	return findings
}

// peerNetwork is the network that leads to the peers, in the form that Open MPI
// takes for an interface.
func peerNetwork(node *facts.Node) string {
	if network, known := networkOf(node, launch.PeerAddress(node).Address); known {
		return network.String()
	}
	return "NETWORK/BITS"
}
