// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math/rand/v2"
	"slices"

	"preflight/facts"
)

// lookups returns which names of a hostfile with n names the i-th node looks up. In a small fleet
// these are all names. In a large fleet they are the first name (the master), the names of the
// node's neighbours, and a share of other names. The names in the share are as far apart as
// possible. Every name is looked up by the same number of nodes, which are spread over the fleet.
func lookups(n, i, share int) (places []int) {
	if n <= max(facts.FullMesh, share) {
		for at := range n {
			places = append(places, at)
		}
		return places
	}
	places = []int{0, (i + n - 1) % n, (i + 1) % n}
	for k := range share {
		places = append(places, (i+k*n/share)%n)
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// everybody returns all n nodes as those that each node calls, by position.
func everybody(n int) [][]int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return slices.Repeat([][]int{all}, n)
}

// once returns the nodes that each of n nodes calls, by position: one of each pair calls the other,
// and each node also calls itself. knocks has the nodes that call it.
//
// All nodes call at the same distances in the hostfile, and for each distance the direction is
// random. So all nodes make and receive the same number of calls. Two nodes opposite each other
// both call.
func once(n int, seed uint64) (calls, knocks [][]int) {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	calls, knocks = make([][]int, n), make([][]int, n)
	for far := range n/2 + 1 {
		ahead, back := far, n-far
		if random.IntN(2) == 0 {
			ahead, back = back, ahead
		}
		for i := range n {
			calls[i] = append(calls[i], (i+ahead)%n)
			if ahead%n != back%n {
				knocks[i] = append(knocks[i], (i+back)%n)
			}
		}
	}
	return calls, knocks
}

// sample returns the nodes that each of n nodes calls, by position. It is for a fleet that is too
// large for calls between all pairs. Each node calls itself, the next node in the hostfile (to
// which NCCL's ring leads), and the next node in several random orders of all nodes.
//
// Each order is a cycle through all nodes, and no two nodes are neighbours in two orders. So all
// nodes make and receive the same number of calls. If a part of the fleet is cut off, each cycle
// leads into that part and out of it. [preflight/checks/proof.Missed] computes which faults this
// finds.
//
// If every node drew its own random peers, one in 400 nodes would be called by only one other node.
// If all nodes used the same offsets, a cut between two racks would be found a tenth as often,
// because the nodes of a rack are next to each other in the hostfile.
//
// The order of a node's calls decides which port of a peer each call uses (mesh.Calls). With one
// order per cycle, each port of a node is called by two or three others.
func sample(n int, seed uint64) [][]int {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	callees, beside := make([][]int, n), make([][]int, n)
	follow := func(order []int) {
		for at, node := range order {
			next := order[(at+1)%n]
			callees[node] = append(callees[node], next)
			beside[node], beside[next] = append(beside[node], next), append(beside[next], node)
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i], callees[i] = i, []int{i}
	}
	follow(order)
	for range facts.SampledPeers - 1 {
		random.Shuffle(n, func(a, b int) { order[a], order[b] = order[b], order[a] })
		for changed := true; changed; {
			changed = false
			for at, node := range order {
				if next := (at + 1) % n; slices.Contains(beside[node], order[next]) {
					other := random.IntN(n)
					order[next], order[other] = order[other], order[next]
					changed = true
				}
			}
		}
		follow(order)
	}
	return callees
}
