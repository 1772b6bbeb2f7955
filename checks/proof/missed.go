// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"preflight/facts"
)

// Missed returns the probability that a sampled mesh (facts.FullMesh) contains no connection from
// any of a nodes to any of b other nodes. With this probability, a run does not notice that the a
// nodes cannot reach the b nodes. Each of n nodes connects to the next node in k =
// facts.SampledPeers cycles through all nodes: the order of the hostfile and k-1 random orders.
//
// Let A be the a nodes and B the b nodes. In one random cycle, the probability that no node of A
// comes directly before a node of B follows from building the cycle: put the n-b nodes outside B in
// a circle, then insert the nodes of B one after the other. The first has n-b places to choose
// from, the next n-b+1, and so on. Of these, a places come directly after a node of A. So the
// probability is
//
//	(1 - a/(n-b)) · (1 - a/(n-b+1)) · … · (1 - a/(n-1))
//
// For k-1 cycles, the probability is this product to the power of k-1. The hostfile's own order is
// left out, because its effect depends on where the nodes are in it. Special cases are
//
//	0                 for a + b = n: a group that cannot reach the rest, even a single node, is
//	                  found in every cycle, and so is a group that the rest cannot reach
//	1 - (k-1)/(n-1)   about, for a = b = 1: one pair, in one direction
//	exp(-(k-1)ab/n)   about, for groups much smaller than the fleet: two racks of 32 among 10,000
//	                  nodes are missed in 54 of 100 runs, of 64 in 9, of 100 in 1 of 400
//
// No two nodes are neighbours in two cycles, so n·k of all n(n-1) directed pairs are tested. One
// pair drawn at random is found with probability [PairFound], and at least one of m such faults
// with about 1-(1-PairFound)^m. If neither direction works, either connection shows it, which
// doubles the probability. Each run draws new orders. If one run misses a fault with probability p,
// r runs miss it with p^r.
func Missed(n, a, b int) float64 {
	if a+b >= n {
		return 0
	}
	cycle := 0.0
	for i := range b {
		cycle += math.Log1p(-float64(a) / float64(n-b+i))
	}
	return math.Exp(cycle * (facts.SampledPeers - 1))
}

// PairFound returns the probability that a sampled mesh of n nodes connects a given directed pair
// of nodes.
func PairFound(n int) float64 { return facts.SampledPeers / float64(n-1) }

// rack is the number of nodes in the example of [Power]. It is about the number of nodes on one
// leaf switch.
const rack = 32

// Power describes which faults a sampled mesh of n nodes finds, and how often.
func Power(n int) string {
	return fmt.Sprintf("every node connected to %d of %s others. This always finds a node or a group that is cut off, in either direction. "+
		"It finds %s of single pairs that cannot reach each other, %s of pairs that fail in one direction, and %s of cases in which %d nodes cannot reach %d others. "+
		"Each run uses other pairs",
		facts.SampledPeers, humanize.Comma(int64(n-1)), percent(2*PairFound(n)), percent(PairFound(n)), percent(1-Missed(n, rack, rack)), rack, rack)
}

// percent formats a probability as a percentage, but never as 100 %.
func percent(p float64) string {
	if p > 0.99 {
		return "more than 99 %"
	}
	return fmt.Sprintf("%.2g %%", 100*p)
}
