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

// Smoke is the smoke test of a run.
type Smoke struct {
	Engine string        // of package smoke; "" for what all nodes have
	Time   time.Duration // for all of it; 0 for none
}

func (r *run) noSmoke() string {
	switch {
	case r.Smoke.Time == 0:
		return "only with --smoke"
	case r.Prediction.Ranks() == nil:
		return "the number of ranks per node is unknown: give the nodes' slots"
	}
	return ""
}

// dismissTime is for ranks to be gone, killed where they do not go.
const dismissTime = 3 * time.Second

// smokeTest is one under way.
type smokeTest struct {
	*run
	ctx   context.Context
	phase Phase
	end   time.Time
	ranks map[*member][]launch.Rank
	crews members          // whose ranks are up, and have not failed alone
	down  map[*member]bool // some ranks of which were, and have to be loaded anew
	tried map[Phase]int
	// doubts are tried by rail, by being by which one alone a member's ranks are to go.
	doubts [][2]*member
	by     map[*member]nccl.RailEnd
}

// smoke has the ranks that the launch will have compute, then talk: those of each node among
// themselves, one of each node, all. Where they cannot, it finds out who.
func (r *run) smoke(ctx context.Context, d Drill) {
	ctx, over := context.WithCancel(ctx)
	defer over() // which ends the ranks of nodes that have not answered
	r.takeTurn(ctx, r.members, r.Smoke.Time/runsAhead)
	s := &smokeTest{run: r, ctx: ctx, phase: d.Phase, end: time.Now().Add(r.Smoke.Time), ranks: map[*member][]launch.Rank{}, down: map[*member]bool{}, tried: map[Phase]int{}}
	for _, rank := range r.Prediction.Ranks() {
		if m := r.members.named(rank.Host); m != nil {
			s.ranks[m] = append(s.ranks[m], rank)
		}
	}
	s.muster(d.Section)
	s.compute()
	s.alone()
	if s.together(facts.SmokeOne, firstRank) && s.together(facts.SmokeAll, everyRank) {
		s.pace()
	}
	s.byRail()
	s.dismiss()
}

// command has members carry out orders at once, in a phase of its own, and hands what came to each.
func (s *smokeTest) command(stage facts.SmokeStage, who members, limit time.Duration, orders func(*member) map[int]smoke.Order, came func(*member, smoke.Outcome, error)) {
	limit = min(limit, time.Until(s.end)-answerTime)
	if limit < answerTime {
		for _, m := range who {
			m.Smoke.Untried = append(m.Smoke.Untried, stage)
		}
		return
	}
	s.each(s.ctx, s.named(stage), who, limit, func(_ context.Context, m *member) error {
		outcome, err := s.ask(m, orders(m), limit)
		came(m, outcome, err)
		return err
	})
}

// ask has one member carry out orders. One that is lost has failed at all of them. Nothing is known of one that this
// machine may have heard too late.
func (s *smokeTest) ask(m *member, orders map[int]smoke.Order, limit time.Duration) (smoke.Outcome, error) {
	w := hostsys.BeginWait()
	ctx, cancel := within(s.ctx, limit)
	defer cancel()
	outcome, err := agent.Command.Ask(ctx, m.agent, smoke.Orders{Token: s.token, Of: orders, Env: s.by[m].Env, Limit: limit})
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

// named is the phase of a stage, whose every round is one of its own.
func (s *smokeTest) named(stage facts.SmokeStage) Phase {
	phase := s.phase + Phase(" "+stage)
	if s.tried[phase]++; s.tried[phase] > 1 {
		phase += Phase(" " + strconv.Itoa(s.tried[phase]))
	}
	return phase
}

// dismiss ends the ranks, and waits until they are gone: the launch is to find the devices free.
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
