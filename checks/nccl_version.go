package checks

import "preflight/facts"

// ncclVersion is the version of the NCCL that torch gets on the node, "" when
// the node did not show one.
func ncclVersion(node *facts.Node) string {
	if node.Python == nil || len(node.Python.NCCL) == 0 {
		return ""
	}
	return node.Python.NCCL[0].Version
}

// fleetNCCL is the NCCL version most nodes have, "" when none showed one. It
// stands in for a node whose python could not be asked.
func fleetNCCL(v View) string {
	var seen []*facts.Node
	for _, node := range v.Nodes {
		if ncclVersion(node) != "" {
			seen = append(seen, node)
		}
	}
	if len(seen) == 0 {
		return ""
	}
	return groupBy(seen, ncclVersion)[0].Value
}
