// SPDX-License-Identifier: Apache-2.0

package smoke

import "slices"

// RailTrial is a pair of nodes that is to reduce by one of the rails between the two, and no other. Both are known
// by their number.
type RailTrial struct{ Pair, Rail int }

// ByRail has pairs tried by each of their rails alone, rails being how many each has.
//
// try makes the trials of one round at once, no node in two of them, and says whether there was time for them.
// Where there was not, those that are left are returned.
func ByRail(pairs [][2]int, rails []int, try func(round []RailTrial) (made bool)) (left []RailTrial) {
	for pair, count := range rails {
		for rail := range count {
			left = append(left, RailTrial{pair, rail})
		}
	}
	for len(left) > 0 {
		busy := map[int]bool{}
		var round, later []RailTrial
		for _, trial := range left {
			nodes := pairs[trial.Pair]
			if busy[nodes[0]] || busy[nodes[1]] {
				later = append(later, trial)
				continue
			}
			busy[nodes[0]], busy[nodes[1]] = true, true
			round = append(round, trial)
		}
		if !try(round) {
			return slices.Concat(round, later)
		}
		left = later
	}
	return nil
}
