// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"preflight/agent"
	"preflight/drill"
	"preflight/drill/mesh"
	"preflight/drill/outcome"
	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/launch"
	"preflight/launch/nccl"
)

const (
	// listenTime is how long a node may take to open its listeners.
	listenTime = time.Second
	// allPorts is the largest number of nodes for which every member tries all ports of each peer.
	// In larger fleets each member tries one port, and the port rotates.
	allPorts = 16
	// runsAhead is how many other preflight runs may measure before this one.
	runsAhead = 3
)

// addressPlan holds one address for every member. The members call each other on these addresses.
type addressPlan struct {
	section facts.Section
	phase   Phase
	into    func(*member) **facts.Mesh
	choose  func(launch.Prediction, *facts.Node) nccl.Choice
	places  map[*member]*place
}

// place is the address at which a plan lets others call a member.
type place struct {
	choice  nccl.Choice
	unfit   string // why other nodes cannot call the member there, "" if they can
	unknown string // why it is unknown whether they can, "" if it is known
	ports   []int  // set once the member listens there
}

// addressPlans returns two plans. One has the addresses of the ranks, the other has the addresses
// that lead to the peers.
func addressPlans() []*addressPlan {
	return []*addressPlan{{
		section: facts.SectionMesh, phase: meshPhase, places: map[*member]*place{},
		choose: nccl.RankAddress,
		into:   func(m *member) **facts.Mesh { return &m.Mesh },
	}, {
		section: facts.SectionPeerMesh, phase: meshAgain, places: map[*member]*place{},
		choose: func(_ launch.Prediction, node *facts.Node) nccl.Choice { return nccl.PeerAddress(node) },
		into:   func(m *member) **facts.Mesh { return &m.PeerMesh },
	}}
}

// mesh makes all members call each other on the addresses that the ranks will use. If the addresses
// that lead to the peers differ from these, the members call each other there as well. So preflight
// only advises addresses that it has tried.
func (r *run) mesh(ctx context.Context, d Drill) {
	plans := r.listen(ctx)
	calls, knocks := r.callees()
	var all sync.WaitGroup
	for _, plan := range plans {
		all.Go(func() { r.call(ctx, plan, calls, knocks, d) })
	}
	all.Wait()
}

// listen makes every member listen on the planned addresses until ctx ends. The first plan has the
// addresses of the ranks; the second has the addresses that lead to the peers, if they differ.
// listen sends no request to members that listen already.
func (r *run) listen(ctx context.Context) []*addressPlan {
	if r.plans != nil {
		return r.plans
	}
	r.plans = addressPlans()
	differ := func(m *member) bool {
		return nccl.RankAddress(r.Prediction, m.Node).Address != nccl.PeerAddress(m.Node).Address
	}
	if !slices.ContainsFunc(r.members, differ) {
		r.plans = r.plans[:1]
	}
	for _, plan := range r.plans {
		r.settle(plan)
	}
	r.members.each(func(m *member) {
		var places []*place
		for _, plan := range r.plans {
			places = append(places, plan.places[m])
		}
		r.listenAt(ctx, m, places, nil)
	})
	return r.plans
}

// settle determines the address at which a plan lets others call each member.
func (r *run) settle(plan *addressPlan) {
	for _, m := range r.members {
		choice := plan.choose(r.Prediction, m.Node)
		at := &place{choice: choice, unfit: unfit(choice, r.shared)}
		if choice.Address == "" && choice.Error == "" {
			at.unknown = choice.Rule
		}
		plan.places[m] = at
	}
}

// unfit returns why no other node can use an address, or "" if other nodes may use it.
func unfit(choice nccl.Choice, holders map[netip.Addr]int) string {
	address, err := netip.ParseAddr(choice.Address)
	switch {
	case choice.Error != "":
		return choice.Error
	case err != nil:
		return cmp.Or(choice.Rule, "no address to listen on")
	case address.IsLoopback():
		return choice.Address + " is a loopback address"
	case holders[address] > 1:
		return fmt.Sprintf("%s is the address of %d nodes", choice.Address, holders[address])
	}
	return ""
}

// listenAt makes a member listen, until ctx ends, at the places where others may call it. bound
// maps an address to the interface on which connections must arrive.
func (r *run) listenAt(ctx context.Context, m *member, places []*place, bound map[string]string) {
	listen := mesh.Listen{Token: r.token, Node: m.Name, Bound: bound}
	for _, at := range places {
		if at.unfit == "" && !slices.Contains(listen.Addresses, at.choice.Address) {
			listen.Addresses = append(listen.Addresses, at.choice.Address)
		}
	}
	if listen.Addresses == nil {
		return
	}
	if m.Net != nil {
		listen.Low, listen.High = m.Net.EphemeralLow, m.Net.EphemeralHigh
	}
	answer, err := agent.Listen.Start(ctx, m.agent, listen, listenTime+r.crowd(), nil)
	for _, at := range places {
		if at.unfit == "" {
			at.listens(answer, err)
		}
	}
}

// listens stores the agent's answer about a place where the member should listen.
func (p *place) listens(answer []mesh.Listening, err error) {
	at := slices.IndexFunc(answer, func(l mesh.Listening) bool { return l.Address == p.choice.Address })
	switch {
	case isLost(err):
		p.unfit, p.unknown = lostReason(err), lostReason(err)
	case err != nil:
		p.unfit = err.Error()
	case at < 0:
		p.unfit = "the agent did not report where it listens"
	default:
		p.ports, p.unfit = answer[at].Ports, answer[at].Error
	}
}

// callees returns the positions of the members that each member calls. In a large fleet these are a
// sample. Otherwise one of each pair calls the other, and the other knocks (see mesh.Peer), so that
// a fault in a single direction is seen.
func (r *run) callees() (calls, knocks [][]int) {
	n := len(r.members)
	if n > facts.FullMesh {
		return sample(n, rand.Uint64()), make([][]int, n)
	}
	return once(n, rand.Uint64())
}

// call makes every member call its callees at the addresses of one plan, and knock at the others. A
// knock does not show who answers, or whether it answers. So if a call failed after it had
// connected, the members call where they had only knocked.
func (r *run) call(ctx context.Context, plan *addressPlan, calls, knocks [][]int, d Drill) {
	seen := make([]facts.Mesh, len(r.members))
	r.callAll(ctx, plan, calls, knocks, d, seen)
	deceived := func(mesh facts.Mesh) bool { return slices.ContainsFunc(mesh.Failed, afterConnecting) }
	if slices.ContainsFunc(knocks, func(some []int) bool { return len(some) > 0 }) && slices.ContainsFunc(seen, deceived) {
		r.callAll(ctx, plan, knocks, make([][]int, len(knocks)), d, seen)
	}
}

// afterConnecting reports whether a call failed although its connection was established.
func afterConnecting(path facts.Path) bool {
	switch path.Outcome {
	case facts.PathReset, facts.PathSilent, facts.PathStranger, facts.PathMisdirected, facts.PathBlackhole:
		return true
	}
	return false
}

// callAll makes every member call and knock once. It replaces earlier results about the same peers
// in seen.
func (r *run) callAll(ctx context.Context, plan *addressPlan, calls, knocks [][]int, d Drill, seen []facts.Mesh) {
	w := hostsys.BeginWait()
	r.each(ctx, plan.phase, r.members, d.Limit, func(ctx context.Context, m *member) error {
		at := plan.places[m]
		if at.unknown != "" {
			m.miss(plan.section, "%s", at.unknown)
			return nil
		}
		peers := r.peers(plan, calls[m.position])
		for _, peer := range r.peers(plan, knocks[m.position]) {
			peer.Knock = true
			peers = append(peers, peer)
		}
		found, err := r.callFrom(ctx, w, m, at, mesh.Calls{Peers: peers, AllPorts: len(r.members) <= allPorts, Deadline: d.Limit})
		seen[m.position] = r.update(seen[m.position], found)
		*plan.into(m) = nil // if the later calls did not end, the earlier ones do not count either
		learn(m, plan.into(m), plan.section, seen[m.position], err)
		return err
	})
}

// update returns a member's earlier results, with later results about some of the peers.
func (r *run) update(earlier, later facts.Mesh) facts.Mesh {
	for _, path := range later.Failed {
		delete(earlier.Reached, path.Peer)
	}
	for _, path := range earlier.Failed {
		isLater := slices.ContainsFunc(later.Failed, func(p facts.Path) bool { return p.Peer == path.Peer })
		if _, reached := later.Reached[path.Peer]; !reached && !isLater {
			later.Failed = append(later.Failed, path)
		}
	}
	slices.SortFunc(later.Failed, func(a, b facts.Path) int { return cmp.Compare(r.members.index(a.Peer), r.members.index(b.Peer)) })
	if later.Reached != nil {
		maps.Copy(later.Reached, earlier.Reached)
	}
	later.MSS = cmp.Or(min(earlier.MSS, later.MSS), earlier.MSS, later.MSS)
	later.Overflows += earlier.Overflows
	return later
}

// callFrom makes a member call others from the place where it listens, and returns the results. If
// no other member could call it there, it makes no calls. w is the wait in which all members call.
func (r *run) callFrom(ctx context.Context, w hostsys.Wait, m *member, at *place, calls mesh.Calls) (facts.Mesh, error) {
	seen, err := facts.Mesh{Error: at.unfit}, error(nil)
	if at.unfit == "" {
		calls.Token, calls.Node = r.token, m.Name
		seen, err = agent.Call.Ask(ctx, m.agent, calls)
		r.excuse(seen.Failed, m, w)
	}
	seen.Interface, seen.Address, seen.Ports = at.choice.Interface, at.choice.Address, at.ports
	return seen, err
}

// excuse marks failed paths as proving nothing about the peer. It does so for peers that did not
// answer in time while the caller, the peer or the launching machine was busy.
func (r *run) excuse(failed []facts.Path, caller *member, w hostsys.Wait) {
	for i := range failed {
		pair := members{caller}
		if peer := r.members.named(failed[i].Peer); peer != nil {
			pair = append(pair, peer)
		}
		outcome.Excuse(&failed[i], busy(w, pair...))
	}
}

// peers returns the peers among the members at some positions: those that a plan lets others call.
func (r *run) peers(plan *addressPlan, some []int) []mesh.Peer {
	peers := make([]mesh.Peer, 0, len(some))
	for _, i := range some {
		m := r.members[i]
		at := plan.places[m]
		if at.unfit != "" {
			continue
		}
		peer := mesh.Peer{Name: m.Name, Address: at.choice.Address, Ports: at.ports}
		if m.SSH != nil && m.Address == peer.Address { // otherwise the ssh port belongs to another address
			peer.Control = m.SSH.Port
		}
		peers = append(peers, peer)
	}
	return peers
}

func (r *run) noThroughput() string {
	if r.Throughput == 0 {
		return "only with --throughput"
	}
	return ""
}

// takeTurn waits until no other preflight measures on these nodes; the first node keeps track of
// the turns. takeTurn waits no longer than runsAhead other runs would take. If the other run has
// not ended by that time, both runs report that another run measured at the same time.
func (r *run) takeTurn(ctx context.Context, ring members, takes time.Duration) {
	if len(ring) == 0 {
		return
	}
	patience := runsAhead * takes
	turn := drill.Turn{Of: hostsys.TurnAtMeasuring, Patience: patience}
	_, _ = agent.HoldTurn.Start(ctx, ring[0].agent, turn, patience+answerTime, nil)
}

// throughput makes every member send to the next member that listens, all at the same time. It uses
// the addresses of the ranks. If not all members listen on these, it uses the addresses that lead
// to the peers.
func (r *run) throughput(ctx context.Context, d Drill) {
	plans := r.listen(ctx)
	plan := plans[0]
	listens := func(m *member) bool { return plan.places[m].unfit == "" }
	if len(r.members.only(listens)) < len(r.members) {
		plan = plans[len(plans)-1]
	}
	ring := r.members.only(listens)
	ctx, over := context.WithCancel(ctx)
	defer over()
	r.takeTurn(ctx, ring, r.Throughput+mesh.SendOverhead)
	r.each(ctx, d.Phase, r.members, r.Throughput+mesh.SendOverhead, func(ctx context.Context, m *member) error {
		at := slices.Index(ring, m)
		if at < 0 || len(ring) < 2 {
			m.miss(d.Section, "%s", cmp.Or(plan.places[m].unfit, "no other node listens"))
			return nil
		}
		next := r.peers(plan, []int{ring[(at+1)%len(ring)].position})[0]
		seen, err := agent.Send.Ask(ctx, m.agent, agent.Sending{Token: r.token, Node: m.Name, To: next, For: r.Throughput})
		seen.Peer, seen.Interface = next.Name, cmp.Or(seen.Interface, plan.places[m].choice.Interface)
		learn(m, &m.Throughput, d.Section, seen, err)
		return err
	})
}
