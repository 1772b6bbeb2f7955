package advice

import (
	"cmp"
	"slices"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// Interconnects groups the nodes by what NCCL will use there, the largest group first
// and equal ones in hostfile order. A node that did not show enough is in none.
func Interconnects(nodes []facts.Node, prediction launch.Prediction) []checks.Interconnect {
	if prediction.Accelerator == "cpu" {
		return nil // gloo knows but one way
	}
	var groups []checks.Interconnect
	at := map[[2]nccl.Transport]int{}
	transports := nccl.NewTransports(prediction, nodes)
	for i := range nodes {
		node := &nodes[i]
		if !node.Reached {
			continue
		}
		inside, between := transports.Inside(node), transports.Between(node)
		if inside.Name == "" && between.Name == "" {
			continue
		}
		group, seen := at[[2]nccl.Transport{inside, between}]
		if !seen {
			group = len(groups)
			at[[2]nccl.Transport{inside, between}] = group
			groups = append(groups, checks.Interconnect{Inside: inside, Between: between})
		}
		groups[group].Nodes = append(groups[group].Nodes, node.Name)
	}
	slices.SortStableFunc(groups, func(a, b checks.Interconnect) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}
