package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"preflight/checks"
	"preflight/drill"
	"preflight/facts"
	"preflight/launch"
)

const (
	// listenTime is what a node gets to open its listeners, and callTime what it
	// gets to call its peers.
	listenTime = time.Second
	callTime   = 4 * time.Second
	// randomPeers is how many nodes everybody calls beside the next one in a
	// fleet too large for everybody to call everybody (checks.FullMesh). It still
	// finds every node that is shut off, at a price that grows with the fleet.
	randomPeers = 6
	// allPorts is up to how many nodes every call tries all ports of its peer,
	// and not one of them in turn.
	allPorts = 16
)

// lane is one address for every member, on which they call each other.
type lane struct {
	section facts.Section
	into    func(*member) **facts.Mesh
	// By member:
	choices []launch.Choice
	unfit   []string // why nobody could call it there, "" when they can
	unseen  []string // why that is not known, "" when it is
	ports   [][]int  // once it listens
}

// callEachOther runs the mesh drill on the addresses the ranks will use and,
// where those are not the ones that lead to the peers, on these too, so that
// what is advised was tried. Throughput follows on the same listeners.
func (d *drills) callEachOther(ctx context.Context) {
	if !d.tries(facts.SectionMesh) && !d.tries(facts.SectionThroughput) {
		return
	}
	ctx, cancel := context.WithCancel(ctx) // ends the listeners
	defer cancel()
	ranks := d.lane(facts.SectionMesh, func(m *member) **facts.Mesh { return &m.Mesh }, func(node *facts.Node) launch.Choice {
		return launch.RankAddress(d.Plan.Prediction, node)
	})
	peers := d.lane(facts.SectionPeerMesh, func(m *member) **facts.Mesh { return &m.PeerMesh }, launch.PeerAddress)
	lanes := []*lane{ranks}
	if !slices.EqualFunc(ranks.choices, peers.choices, func(a, b launch.Choice) bool { return a.Address == b.Address }) {
		lanes = append(lanes, peers)
	}
	d.listen(ctx, lanes)
	plan := d.plan()
	var all sync.WaitGroup
	for _, lane := range lanes {
		all.Go(func() { d.call(ctx, lane, plan) })
	}
	all.Wait()
	if d.tries(facts.SectionThroughput) {
		d.measure(ctx, lanes)
	}
}

// lane decides where everybody listens.
func (d *drills) lane(section facts.Section, into func(*member) **facts.Mesh, choose func(*facts.Node) launch.Choice) *lane {
	l := &lane{section: section, into: into}
	for _, m := range d.crew {
		choice := choose(m.Node)
		l.choices = append(l.choices, choice)
		l.unfit = append(l.unfit, unfit(choice, d.shared))
		unseen := ""
		if choice.Address == "" && choice.Error == "" {
			unseen = choice.Rule
		}
		l.unseen = append(l.unseen, unseen)
	}
	l.ports = make([][]int, len(d.crew))
	return l
}

// unfit says why an address is of no use to any other node, "" when it may be.
func unfit(choice launch.Choice, holders map[netip.Addr]int) string {
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

// listen has every member listen on its addresses.
func (d *drills) listen(ctx context.Context, lanes []*lane) {
	d.crew.each(func(i int, m *member) {
		request := drill.Listen{Token: d.token, Node: m.Name}
		for _, lane := range lanes {
			if lane.unfit[i] == "" && !slices.Contains(request.Addresses, lane.choices[i].Address) {
				request.Addresses = append(request.Addresses, lane.choices[i].Address)
			}
		}
		if len(request.Addresses) == 0 {
			return
		}
		if m.Net != nil {
			request.Low, request.High = m.Net.EphemeralLow, m.Net.EphemeralHigh
		}
		listening, err := stand[[]drill.Listening](ctx, m.agent, methodListen, request, listenTime)
		for _, lane := range lanes {
			at := slices.IndexFunc(listening, func(l drill.Listening) bool { return l.Address == lane.choices[i].Address })
			switch {
			case lane.unfit[i] != "":
			case isLost(err):
				lane.unseen[i] = lostReason(err)
				lane.unfit[i] = lane.unseen[i]
			case err != nil:
				lane.unfit[i] = err.Error()
			case at < 0:
				lane.unfit[i] = "the agent did not say where it listens"
			case listening[at].Error != "":
				lane.unfit[i] = listening[at].Error
			case !usable(listening[at].Ports):
				lane.unfit[i] = "the agent says it listens on ports that are none"
			default:
				lane.ports[i] = listening[at].Ports
			}
		}
	})
}

// mostPorts is how many ports an agent listens on at an address. A node is not
// trusted to send the others to more.
const mostPorts = 3

func usable(ports []int) bool {
	isNone := func(port int) bool { return port < 1 || port > 65535 }
	return len(ports) > 0 && len(ports) <= mostPorts && !slices.ContainsFunc(ports, isNone)
}

// plan is whom every member calls, by member: everybody, or itself, the next
// one and a few others.
func (d *drills) plan() [][]int {
	n := len(d.crew)
	plan := make([][]int, n)
	everybody := make([]int, n)
	for i := range everybody {
		everybody[i] = i
	}
	for i := range plan {
		if n <= checks.FullMesh {
			plan[i] = everybody
			continue
		}
		called := map[int]bool{i: true, (i + 1) % n: true}
		for len(called) < 2+randomPeers {
			called[rand.IntN(n)] = true
		}
		plan[i] = slices.Sorted(maps.Keys(called))
	}
	return plan
}

// meshRequest is drill.Calls, with peers that are encoded once for all who
// call the same.
type meshRequest struct {
	Token    string          `json:"token"`
	Node     string          `json:"node"`
	Peers    json.RawMessage `json:"peers"`
	AllPorts bool            `json:"all_ports"`
	Deadline time.Duration   `json:"deadline"`
}

// call has everybody call whom the plan says, on one lane.
func (d *drills) call(ctx context.Context, lane *lane, plan [][]int) {
	var everybody json.RawMessage
	if len(d.crew) <= checks.FullMesh && len(d.crew) > 0 {
		everybody = encode(d.peers(lane, plan[0]))
	}
	d.during(ctx, Event{Phase: Phase(lane.section)}, callTime, func(ctx context.Context, i int, m *member) error {
		listened := facts.Mesh{Interface: lane.choices[i].Interface, Address: lane.choices[i].Address, Ports: lane.ports[i], Error: lane.unfit[i]}
		switch {
		case lane.unseen[i] != "":
			m.miss(lane.section, "%s", lane.unseen[i])
			return nil
		case lane.unfit[i] != "":
			learn(m, lane.into(m), lane.section, listened, nil)
			return nil
		}
		peers := everybody
		if peers == nil {
			peers = encode(d.peers(lane, plan[i]))
		}
		mesh, err := ask[facts.Mesh](ctx, m.agent, methodMesh, meshRequest{
			Token: d.token, Node: m.Name, Peers: peers, AllPorts: len(d.crew) <= allPorts, Deadline: callTime,
		})
		listened.Error = mesh.Error
		listened.Reached, listened.Failed, listened.MSS = d.believable(lane, plan[i], mesh)
		learn(m, lane.into(m), lane.section, listened, err)
		return err
	})
}

// believable is what a node says of those it was to call, and of nobody else.
func (d *drills) believable(lane *lane, called []int, told facts.Mesh) (reached map[string]float64, failed []facts.Path, mss int) {
	addresses := map[string]string{}
	for _, i := range called {
		addresses[d.crew[i].Name] = lane.choices[i].Address
	}
	reached = map[string]float64{}
	for peer, seconds := range told.Reached {
		if addresses[peer] != "" {
			reached[peer] = seconds
		}
	}
	for _, path := range told.Failed {
		if path.To = addresses[path.Peer]; path.To == "" {
			continue
		}
		if path.Answered != "" && d.crew.named(path.Answered) == nil {
			path.Outcome, path.Answered = facts.PathStranger, ""
		}
		failed = append(failed, path)
	}
	return reached, failed, told.MSS
}

// peers are those of some members that can be called on a lane.
func (d *drills) peers(lane *lane, members []int) []drill.Peer {
	peers := make([]drill.Peer, 0, len(members))
	for _, i := range members {
		if lane.unfit[i] != "" {
			continue
		}
		peer := drill.Peer{Name: d.crew[i].Name, Address: lane.choices[i].Address, Ports: lane.ports[i]}
		if d.crew[i].SSH != nil && d.crew[i].Address == peer.Address { // else the port is another's
			peer.Control = d.crew[i].SSH.Port
		}
		peers = append(peers, peer)
	}
	return peers
}

// measure has everybody send to the next one that listens, all at once: on the
// addresses of the ranks, or where not everybody listens there, on the peers'.
func (d *drills) measure(ctx context.Context, lanes []*lane) {
	lane := lanes[0]
	if slices.ContainsFunc(lane.unfit, func(why string) bool { return why != "" }) {
		lane = lanes[len(lanes)-1]
	}
	var ring []int
	for i := range d.crew {
		if lane.unfit[i] == "" {
			ring = append(ring, i)
		}
	}
	sending := Event{Phase: Sending, Takes: d.Throughput}
	d.during(ctx, sending, d.Throughput+drill.SendOverhead, func(ctx context.Context, i int, m *member) error {
		at := slices.Index(ring, i)
		if at < 0 || len(ring) < 2 {
			m.miss(facts.SectionThroughput, "%s", cmp.Or(lane.unfit[i], "no other node listens"))
			return nil
		}
		next := d.peers(lane, []int{ring[(at+1)%len(ring)]})[0]
		seen, err := ask[facts.Throughput](ctx, m.agent, methodSend, sendRequest{Token: d.token, Node: m.Name, To: next, For: d.Throughput})
		seen.Peer, seen.Interface = next.Name, cmp.Or(seen.Interface, lane.choices[i].Interface)
		learn(m, &m.Throughput, facts.SectionThroughput, seen, err)
		return err
	})
}
