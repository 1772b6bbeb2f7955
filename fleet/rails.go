// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"preflight/drill/mesh"
	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/launch/nccl"
)

// noRails returns "" if the nodes have network paths that the mesh does not test. Otherwise it
// returns why they have none.
func (r *run) noRails() string {
	has := func(m *member) bool { return len(nccl.RailAddresses(r.Prediction, m.Node)) > 0 }
	if slices.ContainsFunc(r.members, has) {
		return ""
	}
	return "no node has a RoCE or InfiniBand address that NCCL uses, or several interfaces in NCCL_SOCKET_IFNAME"
}

// end is one rail of a member, with the place where others call it.
type end struct {
	nccl.RailAddress
	*place
}

// rails makes the members call each other on each rail. Each rail calls the peers' addresses on the
// same rail. A rail on an adapter's port also calls one other rail of each peer, a different one
// for every peer. For sockets the kernel chooses the interface, so sockets make no calls to other
// rails.
func (r *run) rails(ctx context.Context, d Drill) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	ends := r.listenByRail(ctx)
	callees := r.railCallees()
	r.each(ctx, d.Phase, r.members, d.Limit, func(ctx context.Context, m *member) error {
		result := facts.Rails{Rails: make([]facts.Rail, len(ends[m.position]))}
		errs := make([]error, len(result.Rails))
		var all sync.WaitGroup
		for at := range result.Rails {
			own, rail := ends[m.position][at], &result.Rails[at]
			rail.Name, rail.Layer = own.Name, own.Layer
			by := railCalls{run: r, drill: d, caller: m, own: own}
			all.Go(func() {
				rail.Same, errs[at] = by.call(ctx, ends, callees[m.position], func(peer []end, _ int) int { return sameRail(ends[m.position], peer, at) })
			})
			if own.Layer == "" || own.unfit != "" || len(result.Rails) < 2 {
				continue
			}
			all.Go(func() {
				across, err := by.call(ctx, ends, callees[m.position], func(peer []end, turn int) int { return otherRail(ends[m.position], peer, at, turn) })
				if err == nil && len(across.Reached)+len(across.Failed) > 0 {
					rail.Across = &across
				}
			})
		}
		all.Wait()
		err := cmp.Or(errs...)
		learn(m, &m.Rails, d.Section, result, err)
		return err
	})
}

// railCallees returns the members that each member calls on its rails, by position.
func (r *run) railCallees() [][]int {
	if len(r.members) > facts.RailCallers {
		return sample(len(r.members), rand.Uint64())
	}
	return everybody(len(r.members))
}

func addresses(ends []end) (all []nccl.RailAddress) {
	for _, e := range ends {
		all = append(all, e.RailAddress)
	}
	return all
}

func sameRail(own, peer []end, at int) int { return nccl.SameRail(addresses(own), addresses(peer), at) }

// otherRail returns the index of one of the peer's rails that is not the caller's own rail, or -1
// if the peer has no other. Over all its peers, a rail calls all other rails.
func otherRail(own, peer []end, at, turn int) int {
	same := sameRail(own, peer, at)
	if same < 0 || len(peer) < 2 {
		return -1
	}
	return (same + 1 + turn%(len(peer)-1)) % len(peer)
}

// listenByRail makes every member listen on its rails until ctx ends. It returns the ends at which
// each member can be called.
func (r *run) listenByRail(ctx context.Context) [][]end {
	ends := make([][]end, len(r.members))
	r.members.each(func(m *member) {
		bound := map[string]string{}
		var places []*place
		for _, rail := range nccl.RailAddresses(r.Prediction, m.Node) {
			at := &place{choice: nccl.Choice{Interface: rail.Interface, Address: rail.Address}}
			at.unfit = unfit(at.choice, r.shared)
			if rail.Layer != "" {
				bound[rail.Address] = rail.Interface
			}
			ends[m.position], places = append(ends[m.position], end{rail, at}), append(places, at)
		}
		r.listenAt(ctx, m, places, bound)
	})
	return ends
}

// railCalls holds a member's calls on one of its rails.
type railCalls struct {
	*run
	drill  Drill
	caller *member
	own    end
}

// call calls each callee except the caller itself. The function to chooses which of the callee's
// rails to call.
func (c railCalls) call(ctx context.Context, ends [][]end, callees []int, to func(peer []end, turn int) int) (facts.Mesh, error) {
	plan := &addressPlan{places: map[*member]*place{}}
	var called []int
	for turn, i := range callees {
		if at := to(ends[i], turn); i != c.caller.position && at >= 0 {
			called = append(called, i)
			plan.places[c.members[i]] = ends[i][at].place
		}
	}
	calls := mesh.Calls{Peers: c.peers(plan, called), Deadline: c.drill.Limit}
	if c.own.Layer != "" {
		calls.Interface, calls.From = c.own.Interface, c.own.Address
	}
	seen, err := c.callFrom(ctx, hostsys.BeginWait(), c.caller, c.own.place, calls)
	seen.Counters = nil // the counters of the mesh already cover all interfaces
	return seen, err
}
