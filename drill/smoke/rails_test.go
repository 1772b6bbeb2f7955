// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestByRail checks that every rail of every pair is tried once, with no node in two trials at a
// time. The number of rounds must be no higher than the busiest two nodes need. When the time is
// over, the remaining trials must be returned.
func TestByRail(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		n := 2 + random.IntN(12)
		var pairs [][2]int
		var rails []int
		work, all := map[int]int{}, 0
		for range random.IntN(8) {
			pair := [2]int(some(random, n, 2))
			count := random.IntN(9)
			pairs, rails = append(pairs, pair), append(rails, count)
			work[pair[0]] += count
			work[pair[1]] += count
			all += count
		}
		most := 0
		for _, pair := range pairs {
			most = max(most, work[pair[0]]+work[pair[1]])
		}
		limit := random.IntN(most + 2)
		made, rounds := map[RailTrial]int{}, 0
		left := ByRail(pairs, rails, func(round []RailTrial) bool {
			if rounds == limit {
				return false
			}
			rounds++
			var busy []int
			for _, trial := range round {
				made[trial]++
				for _, node := range pairs[trial.Pair] {
					if slices.Contains(busy, node) {
						t.Errorf("node %d is in two trials of one round: %v of %v", node, round, pairs)
					}
					busy = append(busy, node)
				}
			}
			return true
		})
		for _, trial := range left {
			made[trial]++
		}
		for trial, times := range made {
			if times != 1 || trial.Rail < 0 || trial.Rail >= rails[trial.Pair] {
				t.Errorf("%v of %v with %v rails: made or left %d times", trial, pairs, rails, times)
			}
		}
		if len(made) != all || limit >= most && len(left) > 0 || rounds > most {
			t.Errorf("%v with %v rails: %d of %d trials, %d left after %d of %d rounds", pairs, rails, len(made), all, len(left), rounds, most)
		}
	}
}
