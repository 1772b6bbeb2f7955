// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/launch/nccl"
)

// doubt marks two members that cannot reduce with each other, or are slow. After all other trials,
// smoke tests the pair rail by rail.
func (s *smokeTest) doubt(a, b *member) { s.doubts = append(s.doubts, [2]*member{a, b}) }

// byRail makes the marked pairs reduce over each single rail between them, if they have several.
// The cause of a failing node may be a single bad port of eight.
func (s *smokeTest) byRail() {
	var pairs [][2]int
	var rails [][]nccl.Rail
	var counts []int
	for _, pair := range s.doubts {
		if !pair[0].Reached || !pair[1].Reached || !slices.Contains([]string{"nccl", "gloo"}, pair[0].Smoke.Backend) {
			continue
		}
		between := nccl.Rails(s.Prediction, pair[0].Node, pair[1].Node)
		pairs = append(pairs, [2]int{slices.Index(s.members, pair[0]), slices.Index(s.members, pair[1])})
		rails, counts = append(rails, between), append(counts, len(between))
	}
	left := smoke.ByRail(pairs, counts, func(round []smoke.RailTrial) bool {
		s.onlyRail = map[*member]nccl.RailEnd{}
		var trials []members
		for _, trial := range round {
			var who members
			for i, number := range pairs[trial.Pair] {
				m := s.members[number]
				who = append(who, m)
				s.onlyRail[m], s.down[m] = rails[trial.Pair][trial.Rail].Ends[i], true // its ranks are loaded again before the trial
			}
			trials = append(trials, who)
		}
		return len(s.round(facts.SmokeRail, trials, firstRank)) > 0
	})
	for _, trial := range left {
		for _, number := range pairs[trial.Pair] {
			if seen := s.members[number].Smoke; !slices.Contains(seen.Untried, facts.SmokeRail) {
				seen.Untried = append(seen.Untried, facts.SmokeRail)
			}
		}
	}
}
