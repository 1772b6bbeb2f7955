// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"preflight/agent"
	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/launch"
	"preflight/launch/nccl"
	"preflight/remote"
)

// Smoke holds the settings of a run's smoke test.
type Smoke struct {
	Engine string        // an engine of package smoke; "" selects an engine that all nodes have
	Time   time.Duration // time limit for the whole test; 0 for no test
	// Needed reports, after the rehearsal, whether the test must find out why the rehearsal failed.
	// It is nil for a test that the user has asked for.
	Needed func(facts.Fleet, launch.Prediction) bool
}

func (r *run) noSmoke() string {
	switch {
	case r.Smoke.Time == 0 || r.Smoke.Needed != nil:
		return "only with --smoke"
	case r.Prediction.Ranks() == nil:
		return "the number of ranks per node is unknown: give the nodes' slots"
	}
	return ""
}

// isolate lets the smoke test run although the user has not asked for it, if it is needed to find
// out why the rehearsal failed.
func (r *run) isolate(ctx context.Context) {
	isBusy := func(m *member) bool { return r.inUse(m) != "" }
	if needed := r.Smoke.Needed; needed == nil || ctx.Err() != nil || slices.ContainsFunc(r.members, isBusy) || !needed(*r.fleet, r.Prediction) {
		return
	}
	r.Smoke.Needed = nil
	if r.noSmoke() == "" {
		delete(r.fleet.NotTried, facts.SectionSmoke)
	}
}

// dismissTime is how long ranks may take to end. Ranks that do not end by themselves are killed.
const dismissTime = 3 * time.Second

// smokeTest is the state of a running smoke test.
type smokeTest struct {
	*run
	ctx   context.Context
	phase Phase
	end   time.Time
	ranks map[*member][]launch.Rank
	crews members          // the members whose ranks are ready and have not failed by themselves
	down  map[*member]bool // the members with ranks that were ended and must be loaded again
	tried map[Phase]int
	// doubts lists the pairs to test rail by rail. onlyRail maps a member to the only rail that its
	// ranks may use.
	doubts   [][2]*member
	onlyRail map[*member]nccl.RailEnd
}

// smoke makes the ranks of the launch compute and then communicate. First the ranks of each node
// communicate, then one rank of each node, then all ranks. If a step fails, smoke finds out which
// nodes cause the failure.
func (r *run) smoke(ctx context.Context, d Drill) {
	ctx, over := context.WithCancel(ctx)
	defer over() // also ends the ranks on nodes that have not answered
	r.takeTurn(ctx, r.members, r.Smoke.Time/runsAhead)
	s := &smokeTest{run: r, ctx: ctx, phase: d.Phase, end: time.Now().Add(r.Smoke.Time), ranks: map[*member][]launch.Rank{}, down: map[*member]bool{}, tried: map[Phase]int{}}
	for _, rank := range r.Prediction.Ranks() {
		if m := r.members.named(rank.Host); m != nil {
			s.ranks[m] = append(s.ranks[m], rank)
		}
	}
	s.startRanks(d.Section)
	s.compute()
	s.alone()
	if s.together(facts.SmokeOne, firstRank) && s.together(facts.SmokeAll, everyRank) {
		s.pace()
	}
	s.byRail()
	s.dismiss()
}

// command makes members carry out orders at the same time, in a separate phase. It calls receive
// with each result.
func (s *smokeTest) command(stage facts.SmokeStage, who members, limit time.Duration, orders func(*member) map[int]smoke.Order, receive func(*member, smoke.Outcome, error)) {
	limit = min(limit, time.Until(s.end)-answerTime)
	if limit < answerTime {
		for _, m := range who {
			m.Smoke.Untried = append(m.Smoke.Untried, stage)
		}
		return
	}
	s.each(s.ctx, s.named(stage), who, limit, func(_ context.Context, m *member) error {
		outcome, err := s.ask(m, orders(m), limit)
		receive(m, outcome, err)
		return err
	})
}

// ask makes one member carry out orders. A lost member has failed all its orders. If this machine
// may have been too busy to read the answer in time, nothing is known about the orders.
func (s *smokeTest) ask(m *member, orders map[int]smoke.Order, limit time.Duration) (smoke.Outcome, error) {
	w := hostsys.BeginWait()
	ctx, cancel := within(s.ctx, limit)
	defer cancel()
	outcome, err := agent.Command.Ask(ctx, m.agent, smoke.Orders{Token: s.token, Of: orders, Env: s.onlyRail[m].Env, Limit: limit})
	m.lose(err)
	if err != nil {
		outcome = smoke.Outcome{}
		if errors.Is(err, remote.ErrNoAnswer) && w.Busy() > 0 {
			return outcome, err
		}
		for _, local := range slices.Sorted(maps.Keys(orders)) {
			outcome.Failures = append(outcome.Failures, facts.SmokeFailure{LocalRank: local, Kind: facts.SmokeCrash, Call: orders[local].Do, Message: "no answer from its node: " + lostReason(err)})
		}
	}
	return outcome, err
}

// named returns the phase of a stage. Every round of a stage has its own phase.
func (s *smokeTest) named(stage facts.SmokeStage) Phase {
	phase := s.phase + Phase(" "+stage)
	if s.tried[phase]++; s.tried[phase] > 1 {
		phase += Phase(" " + strconv.Itoa(s.tried[phase]))
	}
	return phase
}

// dismiss ends the ranks and waits until their processes are gone. After that, the launch finds the
// devices free.
func (s *smokeTest) dismiss() {
	who := s.members.only(func(m *member) bool { return m.Reached && m.Smoke != nil && m.Smoke.Refused == "" })
	who.each(func(m *member) {
		ctx, cancel := within(s.ctx, dismissTime)
		defer cancel()
		if gone, err := agent.Command.Ask(ctx, m.agent, smoke.Orders{Token: s.token, Dismiss: true}); err == nil {
			m.Smoke.Left = gone.Left
		}
	})
}
