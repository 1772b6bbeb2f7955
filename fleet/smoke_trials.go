// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/launch/nccl"
)

const (
	// reduceTime is the time limit for one trial. NCCL and gloo need a second or two to connect. If
	// they cannot connect, enough time must be left for other trials.
	reduceTime = 8 * time.Second
	// fewNodes is the largest number of other nodes that a trial lists by name.
	fewNodes = 8
	// reduced is how many bytes the ranks reduce: more than any buffer on the way holds.
	// reducedByCPU is the smaller number for ranks whose CPUs compute the sum.
	reduced, reducedByCPU = 64 << 20, 4 << 20
)

// These functions select which ranks of a node take part in a trial.
func everyRank(m *member) []facts.SmokeRank { return m.Smoke.Ranks }
func firstRank(m *member) []facts.SmokeRank { return m.Smoke.Ranks[:1] }

// alone makes the ranks of each node reduce with each other.
func (s *smokeTest) alone() {
	var trials []members
	for _, m := range s.crews {
		if len(m.Smoke.Ranks) > 1 {
			trials = append(trials, members{m})
		}
	}
	for i, passed := range s.round(facts.SmokeNode, trials, everyRank) {
		if !passed {
			trials[i][0].Smoke.Fault = facts.FaultAlone
		}
	}
	s.dropFailed()
}

// together makes ranks of all nodes reduce. If that fails, it isolates the nodes that cause the
// failure. It returns false if no time was left.
func (s *smokeTest) together(stage facts.SmokeStage, ranks func(*member) []facts.SmokeRank) bool {
	size := 0
	for _, m := range s.crews {
		size += len(ranks(m))
	}
	if len(s.crews) < 2 || stage == facts.SmokeAll && size == len(s.crews) {
		return true // the trial before this one had the same ranks
	}
	if passed := s.round(stage, []members{s.crews}, ranks); len(passed) == 0 || passed[0] {
		return len(passed) > 0
	}
	crews := s.crews
	var all []int
	for i := range crews {
		all = append(all, i)
	}
	s.blame(crews, smoke.Isolate(all, func(round []smoke.Trial) (passed []bool, more bool) {
		var trials []members
		for _, trial := range round {
			var who members
			for _, i := range trial.Nodes {
				who = append(who, crews[i])
			}
			trials = append(trials, who)
		}
		passed = s.round(round[0].Stage, trials, ranks)
		return passed, len(passed) > 0
	}))
	s.crews = s.crews.only(func(m *member) bool { return m.Smoke.Fault == "" })
	return true
}

// pace makes nodes reduce in pairs, if all trials passed. The nodes of a slow pair and nodes
// without a partner reduce once more with other partners. The group of all nodes is as fast as its
// slowest node, so the group cannot show which node is slow.
func (s *smokeTest) pace() {
	isPair := func(trial facts.SmokeTrial) bool { return trial.Stage == facts.SmokePair }
	arePaired := slices.ContainsFunc(s.crews, func(m *member) bool { return slices.ContainsFunc(m.Smoke.Trials, isPair) })
	if len(s.crews) < facts.UsualFrom || arePaired { // the pairs were already tried to isolate a fault
		return
	}
	in := func(pairs []members) {
		for i, passed := range s.round(facts.SmokePair, pairs, firstRank) {
			if !passed { // the pair failed although the whole group passed; the group used another path
				s.blame(pairs[i], smoke.Verdict{Among: [][]int{{0, 1}}})
			}
		}
	}
	var pairs, again []members
	for pair := range slices.Chunk(s.crews, 2) {
		if len(pair) == 2 {
			pairs = append(pairs, pair)
		}
	}
	in(pairs)
	rate := func(m *member) float64 {
		if trial := last(m.Smoke.Trials); isPair(trial) {
			return trial.Rate
		}
		return 0
	}
	var rates []float64
	for _, m := range slices.Concat(pairs...) {
		rates = append(rates, rate(m))
	}
	isSlow := func(m *member) bool { return rate(m) < facts.SlowTraffic*facts.Usual(rates) }
	slow, well := s.crews.only(isSlow), s.crews.only(func(m *member) bool { return !isSlow(m) })
	for i := range min(len(slow), len(well)) {
		again = append(again, members{slow[i], well[i]})
	}
	in(again)
	for _, pair := range again {
		if isSlow(pair[0]) {
			s.doubt(pair[0], pair[1])
		}
	}
}

// round runs trials at the same time. In each trial some members reduce. round returns which trials
// passed. It returns nil if no time was left, or if this machine was too busy to trust the results.
func (s *smokeTest) round(stage facts.SmokeStage, trials []members, ranks func(*member) []facts.SmokeRank) []bool {
	all := slices.Concat(trials...)
	if len(all) == 0 {
		return nil
	}
	s.loadAgain(all)
	limit := min(reduceTime, s.Smoke.Time/4)
	left := time.Until(s.end) - answerTime
	if s.ctx.Err() != nil || left < limit {
		for _, m := range all {
			m.Smoke.Untried = append(m.Smoke.Untried, stage)
		}
		return nil
	}
	passed, w := make([]bool, len(trials)), hostsys.BeginWait()
	phase := s.named(stage)
	s.emit(Event{Phase: phase, Step: Began, Nodes: len(all)})
	var made sync.WaitGroup
	for i, who := range trials {
		made.Go(func() { passed[i] = s.reduce(phase, stage, who, ranks, limit) })
	}
	made.Wait()
	for _, m := range all {
		s.down[m] = len(last(m.Smoke.Trials).Failures) > 0
	}
	if w.Busy() > 0 && slices.Contains(passed, false) && !slices.ContainsFunc(all, hasFailed) {
		for _, m := range all {
			m.Smoke.Trials, m.Smoke.Untried = m.Smoke.Trials[:len(m.Smoke.Trials)-1], append(m.Smoke.Untried, stage)
		}
		return nil
	}
	return passed
}

// hasFailed reports whether a member's last trial has a failure that proves something. A rank that
// only did not answer in time does not count.
func hasFailed(m *member) bool {
	return slices.ContainsFunc(last(m.Smoke.Trials).Failures, func(f facts.SmokeFailure) bool { return f.Kind != facts.SmokeHang })
}

func last[T any](of []T) T { return of[len(of)-1] }

// loadAgain waits until the ranks that had to be ended are loaded again. The time of this wait is
// not part of a trial.
func (s *smokeTest) loadAgain(who members) {
	who = who.only(func(m *member) bool { return s.down[m] })
	if len(who) == 0 {
		return
	}
	s.command(facts.SmokeLoad, who, s.Smoke.Time/2, func(m *member) map[int]smoke.Order {
		orders := map[int]smoke.Order{}
		for _, rank := range m.Smoke.Ranks {
			orders[rank.LocalRank] = smoke.Order{Do: smoke.DoLoad}
		}
		return orders
	}, func(*member, smoke.Outcome, error) {}) // a rank that cannot be loaded fails in the trial
}

// reduce makes ranks of some members connect and reduce, and stores each member's result.
func (s *smokeTest) reduce(phase Phase, stage facts.SmokeStage, who members, ranks func(*member) []facts.SmokeRank, limit time.Duration) (passed bool) {
	began, size, bytes := time.Now(), 0, reduced
	for _, m := range who {
		size += len(ranks(m))
	}
	if s.Prediction.Accelerator == "cpu" {
		bytes = reducedByCPU
	}
	first := ranks(who[0])[0].LocalRank
	outcomes, meet := make([]smoke.Outcome, len(who)), smoke.Order{Do: smoke.DoMeet, Seconds: limit.Seconds() / 2, Size: size, Meet: s.meetAt(who)}
	outcomes[0], _ = s.ask(who[0], map[int]smoke.Order{first: meet}, limit/2)
	if place, ok := outcomes[0].Done[first]; ok {
		left := max(limit-time.Since(began), limit/2) // on a busy machine, connecting may take longer than planned
		var all sync.WaitGroup
		next := 0
		for i, m := range who {
			orders := map[int]smoke.Order{}
			for _, rank := range ranks(m) {
				orders[rank.LocalRank] = smoke.Order{
					Do: smoke.DoReduce, Seconds: left.Seconds(), Rank: next, Size: size, Meet: place.Meet, Bytes: bytes,
				}
				next++
			}
			all.Go(func() {
				s.emit(Event{Phase: phase, Step: Began, Node: m.Name})
				var err error
				outcomes[i], err = s.ask(m, orders, left)
				s.ended(phase, m.Name, err)
			})
		}
		all.Wait()
	}
	passed = true
	for i, m := range who {
		passed = passed && len(outcomes[i].Failures) == 0 && len(outcomes[i].Done) == len(ranks(m))
	}
	for i, m := range who {
		trial := facts.SmokeTrial{Stage: stage, Nodes: len(who), Ranks: size, Rail: s.onlyRail[m].Name, Passed: passed, Seconds: time.Since(began).Seconds(), Failures: outcomes[i].Failures}
		for _, other := range who {
			if other != m && len(who) <= fewNodes && stage != facts.SmokeOne && stage != facts.SmokeAll {
				trial.With = append(trial.With, other.Name)
			}
		}
		for _, done := range outcomes[i].Done {
			if passed && (trial.Rate == 0 || done.BitRate < trial.Rate) {
				trial.Rate = done.BitRate
			}
		}
		m.Smoke.Trials = append(m.Smoke.Trials, trial)
	}
	return passed
}

// meetAt returns the address at which the ranks find rank 0. It returns the first of these that
// exists: the address on the rail under test, the address of rank 0's node that leads to its peers,
// the address by which preflight reached that node, or the node's name. On a single node it returns
// the loopback address. Without an address torch would make each rank use its own loopback.
func (s *smokeTest) meetAt(who members) string {
	if len(who) == 1 {
		return "127.0.0.1"
	}
	return cmp.Or(s.onlyRail[who[0]].Address, nccl.PeerAddress(who[0].Node).Address, who[0].Address, hostfile.Bare(who[0].Name))
}

// blame stores the verdict about the nodes that cause a fault.
func (s *smokeTest) blame(crews members, v smoke.Verdict) {
	against := func(fault facts.SmokeFault, among ...int) {
		for _, i := range among {
			seen := crews[i].Smoke
			seen.Fault = fault
			for _, j := range among {
				if j != i {
					seen.Against = append(seen.Against, crews[j].Name)
				}
			}
		}
	}
	isBad := func(name string) bool {
		return slices.ContainsFunc(v.Bad, func(i int) bool { return crews[i].Name == name })
	}
	for _, i := range v.Bad {
		seen := crews[i].Smoke
		seen.Fault = facts.FaultNode
		for _, trial := range seen.Trials {
			if trial.Stage == facts.SmokePair && !isBad(trial.With[0]) {
				seen.Against = append(seen.Against, trial.With...)
			}
		}
		if len(seen.Against) > 0 {
			s.doubt(crews[i], crews.named(last(seen.Against)))
		}
	}
	for _, edge := range v.Edges {
		against(facts.FaultEdge, edge[:]...)
		s.doubt(crews[edge[0]], crews[edge[1]])
	}
	for _, among := range v.Among {
		against(facts.FaultAmong, among...)
		if len(among) == 2 {
			s.doubt(crews[among[0]], crews[among[1]])
		}
	}
	if v.Common {
		s.doubt(crews[0], crews[1])
	}
	for _, m := range crews {
		if v.Common {
			m.Smoke.Fault = facts.FaultCommon
		}
		m.Smoke.Untried = append(m.Smoke.Untried, v.Untried...)
	}
}
