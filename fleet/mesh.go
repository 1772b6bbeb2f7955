package fleet

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"preflight/drill/mesh"
	"preflight/facts"
	"preflight/fleet/agent"
	"preflight/launch/nccl"
)

const (
	// listenTime is what a node gets to open its listeners.
	listenTime = time.Second
	// randomPeers is how many nodes everybody calls beside the next one in a
	// fleet too large for everybody to call everybody (facts.FullMesh). It still
	// finds every node that is shut off, at a price that grows with the fleet.
	randomPeers = 6
	// allPorts is up to how many nodes every call tries all ports of its peer,
	// and not one of them in turn.
	allPorts = 16
)

// addressPlan is one address for every member, on which they call each other.
type addressPlan struct {
	section facts.Section
	phase   Phase
	into    func(*member) **facts.Mesh
	// By member:
	choices []nccl.Choice
	unfit   []string // why nobody could call it there, "" when they can
	unknown []string // why that is not known, "" when it is
	ports   [][]int  // once it listens
}

// mesh has everybody call each other on the addresses the ranks will use and,
// where those are not the ones that lead to the peers, on these too, so that
// what is advised was tried.
func (r *run) mesh(ctx context.Context, d Drill) {
	plans := r.listen(ctx)
	callees := r.callees()
	var all sync.WaitGroup
	for _, plan := range plans {
		all.Go(func() { r.call(ctx, plan, callees, d.Limit) })
	}
	all.Wait()
}

// listen has every member listen, until ctx ends, on the addresses that are
// planned: those of the ranks, and after them those of the peers where these are
// others.
func (r *run) listen(ctx context.Context) []*addressPlan {
	r.listening.Do(func() {
		ranks := r.planAddresses(func(node *facts.Node) nccl.Choice { return nccl.RankAddress(r.Prediction, node) })
		ranks.section, ranks.into = facts.SectionMesh, func(m *member) **facts.Mesh { return &m.Mesh }
		peers := r.planAddresses(nccl.PeerAddress)
		peers.section, peers.into = facts.SectionPeerMesh, func(m *member) **facts.Mesh { return &m.PeerMesh }
		ranks.phase, peers.phase = meshPhase, meshAgain
		r.plans = []*addressPlan{ranks}
		if !slices.EqualFunc(ranks.choices, peers.choices, func(a, b nccl.Choice) bool { return a.Address == b.Address }) {
			r.plans = append(r.plans, peers)
		}
		for range r.members {
			r.secrets = append(r.secrets, crand.Text())
		}
		r.members.each(func(i int, m *member) { r.listenAt(ctx, i, m) })
	})
	return r.plans
}

func (r *run) planAddresses(choose func(*facts.Node) nccl.Choice) *addressPlan {
	plan := &addressPlan{ports: make([][]int, len(r.members))}
	for _, m := range r.members {
		choice := choose(m.Node)
		plan.choices = append(plan.choices, choice)
		plan.unfit = append(plan.unfit, unfit(choice, r.shared))
		unknown := ""
		if choice.Address == "" && choice.Error == "" {
			unknown = choice.Rule
		}
		plan.unknown = append(plan.unknown, unknown)
	}
	return plan
}

// unfit says why an address is of no use to any other node, "" when it may be.
func unfit(choice nccl.Choice, holders map[netip.Addr]int) string {
	address, err := netip.ParseAddr(choice.Address)
	switch {
	case choice.Error != "":
		return choice.Error
	case err != nil:
		return cmp.Or(choice.Rule, "there is no address to listen on")
	case address.IsLoopback():
		return choice.Address + " is a loopback address"
	case holders[address] > 1:
		return fmt.Sprintf("%s is held by %d nodes", choice.Address, holders[address])
	}
	return ""
}

func (r *run) listenAt(ctx context.Context, i int, m *member) {
	listen := mesh.Listen{Token: r.token, Secret: r.secrets[i], Node: m.Name}
	for _, plan := range r.plans {
		if plan.unfit[i] == "" && !slices.Contains(listen.Addresses, plan.choices[i].Address) {
			listen.Addresses = append(listen.Addresses, plan.choices[i].Address)
		}
	}
	if len(listen.Addresses) == 0 {
		return
	}
	if m.Net != nil {
		listen.Low, listen.High = m.Net.EphemeralLow, m.Net.EphemeralHigh
	}
	listening, err := agent.Listen.Start(ctx, m.agent, listen, listenTime, nil)
	for _, plan := range r.plans {
		at := slices.IndexFunc(listening, func(l mesh.Listening) bool { return l.Address == plan.choices[i].Address })
		switch {
		case plan.unfit[i] != "":
		case isLost(err):
			plan.unknown[i] = lostReason(err)
			plan.unfit[i] = plan.unknown[i]
		case err != nil:
			plan.unfit[i] = err.Error()
		case at < 0:
			plan.unfit[i] = "the agent does not say where it listens"
		case listening[at].Error != "":
			plan.unfit[i] = listening[at].Error
		case !usable(listening[at].Ports):
			plan.unfit[i] = "the agent names ports that do not exist"
		default:
			plan.ports[i] = listening[at].Ports
		}
	}
}

// mostPorts is how many ports an agent listens on at an address. A node is not
// trusted to send the others to more.
const mostPorts = 3

func usable(ports []int) bool {
	isNone := func(port int) bool { return port < 1 || port > 65535 }
	return len(ports) > 0 && len(ports) <= mostPorts && !slices.ContainsFunc(ports, isNone)
}

// callees are whom every member calls, by member: everybody, or itself, the next
// one and a few others.
func (r *run) callees() [][]int {
	n := len(r.members)
	callees := make([][]int, n)
	everybody := make([]int, n)
	for i := range everybody {
		everybody[i] = i
	}
	for i := range callees {
		if n <= facts.FullMesh {
			callees[i] = everybody
			continue
		}
		called := map[int]bool{i: true, (i + 1) % n: true}
		for len(called) < 2+randomPeers {
			called[rand.IntN(n)] = true
		}
		callees[i] = slices.Sorted(maps.Keys(called))
	}
	return callees
}

// call has everybody call its callees at the addresses of one plan.
func (r *run) call(ctx context.Context, plan *addressPlan, callees [][]int, limit time.Duration) {
	r.each(ctx, Event{Phase: plan.phase}, limit, func(ctx context.Context, i int, m *member) error {
		listened := facts.Mesh{Interface: plan.choices[i].Interface, Address: plan.choices[i].Address, Ports: plan.ports[i], Error: plan.unfit[i]}
		switch {
		case plan.unknown[i] != "":
			m.miss(plan.section, "%s", plan.unknown[i])
			return nil
		case plan.unfit[i] != "":
			learn(m, plan.into(m), plan.section, listened, nil)
			return nil
		}
		seen, err := agent.Call.Ask(ctx, m.agent, mesh.Calls{
			Token: r.token, Node: m.Name, Peers: r.peers(plan, callees[i]), AllPorts: len(r.members) <= allPorts, Deadline: limit,
		})
		listened.Error = seen.Error
		listened.Reached, listened.Failed = r.believable(plan, m, callees[i], seen)
		listened.MSS, listened.Overflows = seen.MSS, max(0, seen.Overflows)
		learn(m, plan.into(m), plan.section, listened, err)
		return err
	})
}

// believable is what a node says of those it was to call, once of each, and of nobody else.
// That a node answered it shows by what that node alone could tell it.
func (r *run) believable(plan *addressPlan, caller *member, called []int, answer mesh.Called) (reached map[string]float64, failed []facts.Path) {
	said := map[string]facts.Path{}
	for _, path := range slices.Backward(answer.Failed) {
		said[path.Peer] = path
	}
	hasProof := func(peer string, i int) bool { return answer.Proofs[peer] == mesh.Proof(r.secrets[i], caller.Name) }
	reached = map[string]float64{}
	for _, i := range called {
		peer := r.members[i].Name
		path, hasFailed := said[peer]
		seconds, hasReached := answer.Reached[peer]
		switch {
		case plan.unfit[i] != "", !hasFailed && !hasReached:
			continue
		case !hasFailed && hasProof(peer, i):
			reached[peer] = seconds
			continue
		case !hasFailed:
			path = facts.Path{Peer: peer, Port: plan.ports[i][0], Seconds: seconds, Outcome: facts.PathUnproven}
		}
		path.To = plan.choices[i].Address
		if at := r.members.index(path.Answered); path.Answered != "" && (at < 0 || !hasProof(peer, at)) {
			path.Outcome, path.Answered = facts.PathStranger, ""
		}
		if mac, err := net.ParseMAC(path.MAC); err != nil {
			path.MAC = ""
		} else {
			path.MAC = mac.String()
		}
		failed = append(failed, path)
	}
	return reached, failed
}

// peers are those of some members that can be called by a plan.
func (r *run) peers(plan *addressPlan, members []int) []mesh.Peer {
	peers := make([]mesh.Peer, 0, len(members))
	for _, i := range members {
		if plan.unfit[i] != "" {
			continue
		}
		m := r.members[i]
		peer := mesh.Peer{Name: m.Name, Address: plan.choices[i].Address, Ports: plan.ports[i]}
		if m.SSH != nil && m.Address == peer.Address { // else the port is another's
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

// throughput has everybody send to the next one that listens, all at once: at the
// addresses of the ranks, or where not everybody listens there, at the peers'.
func (r *run) throughput(ctx context.Context, d Drill) {
	plans := r.listen(ctx)
	plan := plans[0]
	if slices.ContainsFunc(plan.unfit, func(why string) bool { return why != "" }) {
		plan = plans[len(plans)-1]
	}
	var ring []int
	for i := range r.members {
		if plan.unfit[i] == "" {
			ring = append(ring, i)
		}
	}
	r.each(ctx, Event{Phase: d.Phase, Takes: r.Throughput}, r.Throughput+mesh.SendOverhead, func(ctx context.Context, i int, m *member) error {
		at := slices.Index(ring, i)
		if at < 0 || len(ring) < 2 {
			m.miss(d.Section, "%s", cmp.Or(plan.unfit[i], "no other node listens"))
			return nil
		}
		next := r.peers(plan, []int{ring[(at+1)%len(ring)]})[0]
		seen, err := agent.Send.Ask(ctx, m.agent, agent.Sending{Token: r.token, Node: m.Name, To: next, For: r.Throughput})
		seen.Peer, seen.Interface = next.Name, cmp.Or(seen.Interface, plan.choices[i].Interface)
		learn(m, &m.Throughput, d.Section, seen, err)
		return err
	})
}
