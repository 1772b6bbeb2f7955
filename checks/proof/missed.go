// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"preflight/facts"
)

// Missed is how probable it is that a sampled mesh (facts.FullMesh) made no call from any of a nodes to any
// of b others: so often does it miss that these cannot reach those. Of n nodes everybody calls
// the next one in k = facts.SampledPeers cycles through all nodes: the hostfile and k-1 random orders.
//
// In one random cycle, no node of A stands directly before one of B: the n-b that are not in B are put in a
// circle, and the b of B one after the other behind any that is there, of which the first has n-b,
// the next n-b+1 to choose from, and all of them a fewer to stay clear of A. So it is
//
//	(1 - a/(n-b)) · (1 - a/(n-b+1)) · … · (1 - a/(n-1))
//
// and for the k-1 cycles that to the power of k-1; what the hostfile's own order adds depends on where the
// nodes stand in it, and is left out. It is
//
//	0                 for a + b = n: a part that cannot reach the rest, be it one node, is always found,
//	                  in every cycle anew, and so is a part that the rest cannot reach
//	1 - (k-1)/(n-1)   about, for a = b = 1: one pair, in one direction
//	exp(-(k-1)ab/n)   about, for parts much smaller than the fleet: two racks of 32 among 10,000
//	                  nodes are missed in 54 of 100 runs, of 64 in 9, of 100 in 1 of 400
//
// As no two nodes are neighbours in two cycles, of all n(n-1) directed pairs n·k are called, and one drawn at
// random is found with [PairFound]; of m such faults at least one with 1-(1-PairFound)^m, about.
// Where neither direction works, either call shows it: that is twice as probable.
// A run draws anew: r runs miss what one misses with the r-th power.
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

// PairFound is how probable it is that a sampled mesh of n nodes has called one directed pair, drawn at random.
func PairFound(n int) float64 { return facts.SampledPeers / float64(n-1) }

// rack is how many nodes the example has that [Power] gives: those of one leaf switch, about.
const rack = 32

// Power says what a sampled mesh of n nodes finds, and how often.
func Power(n int) string {
	return fmt.Sprintf("every node called %d of %s others: a node or a part of the fleet that is cut off is always found, in whichever direction; "+
		"of single pairs %s that do not reach each other, %s where one direction fails; of %d nodes that do not reach %d others %s; another run calls others",
		facts.SampledPeers, humanize.Comma(int64(n-1)), percent(2*PairFound(n)), percent(PairFound(n)), rack, rack, percent(1-Missed(n, rack, rack)))
}

// percent never says that what is probable is certain.
func percent(p float64) string {
	if p > 0.99 {
		return "more than 99 %"
	}
	return fmt.Sprintf("%.2g %%", 100*p)
}
