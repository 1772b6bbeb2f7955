// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math/rand/v2"
	"slices"

	"preflight/facts"
)

// lookups is which names of a hostfile of n the i-th node looks up: all, or in a fleet too large for that the
// first one's, where the master lives, its neighbours' and a share of others that are as far from each other as
// can be. So every name is looked up by as many nodes, all over the fleet.
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

// sample is whom each of n nodes calls in a fleet too large for everybody to call
// everybody, by its place: itself, the next one in the hostfile, to whom NCCL's ring leads,
// and the next one in orders of all nodes drawn at random. Each order is a cycle through
// everybody, and no two nodes are neighbours in two of them. So everybody calls as many and is
// called by as many, and whatever part of the fleet is cut off, each cycle leads into it and out
// of it: what that finds is said in [preflight/checks/proof.Missed].
//
// Peers drawn by every node for itself would leave one in 400 nodes to the word of a single caller;
// offsets that all nodes share would find two racks that cannot talk to each other a tenth as often,
// as the nodes of a rack stand together in the hostfile.
//
// Whom a node calls in which turn decides which of a peer's ports it calls (mesh.Calls): with a turn for
// each cycle, every port of a node is called by two others or three.
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
		for again := true; again; {
			again = false
			for at, node := range order {
				if next := (at + 1) % n; slices.Contains(beside[node], order[next]) {
					other := random.IntN(n)
					order[next], order[other] = order[other], order[next]
					again = true
				}
			}
		}
		follow(order)
	}
	return callees
}
