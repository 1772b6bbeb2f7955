package checks

import (
	"cmp"
	"slices"

	"preflight/facts"
	"preflight/launch"
)

// Interconnect is nodes whose ranks will talk alike.
type Interconnect struct {
	Nodes   []string         `json:"nodes"`
	Inside  launch.Transport `json:"inside"`
	Between launch.Transport `json:"between"`
}

// interconnects groups the nodes by what NCCL will use there, the largest group first
// and equal ones in hostfile order. A node that did not show enough is in none.
func interconnects(nodes []facts.Node, prediction launch.Prediction) []Interconnect {
	if prediction.Accelerator == "cpu" {
		return nil // gloo knows but one way
	}
	var groups []Interconnect
	at := map[[2]launch.Transport]int{}
	transports := launch.NewTransports(prediction, nodes)
	for i := range nodes {
		node := &nodes[i]
		if !node.Reached {
			continue
		}
		inside, between := transports.Inside(node), transports.Between(node)
		if inside.Name == "" && between.Name == "" {
			continue
		}
		group, seen := at[[2]launch.Transport{inside, between}]
		if !seen {
			group = len(groups)
			at[[2]launch.Transport{inside, between}] = group
			groups = append(groups, Interconnect{Inside: inside, Between: between})
		}
		groups[group].Nodes = append(groups[group].Nodes, node.Name)
	}
	slices.SortStableFunc(groups, func(a, b Interconnect) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}
