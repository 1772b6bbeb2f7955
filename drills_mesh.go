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
	"time"

	"preflight/checks"
	"preflight/drill"
	"preflight/facts"
	"preflight/launch"
)

const (
	// listenTime is what a node gets to open its listeners.
	listenTime = 2 * time.Second
	// callTime is what a node gets to call its peers. There may be two rounds.
	callTime = 4500 * time.Millisecond
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
	ranks := d.lane(facts.SectionMesh, func(m *member) **facts.Mesh { return &m.Mesh }, d.prediction.RankAddress)
	peers := d.lane(facts.SectionPeerMesh, func(m *member) **facts.Mesh { return &m.PeerMesh }, launch.PeerAddress)
	lanes := []*lane{ranks}
	if !slices.EqualFunc(ranks.choices, peers.choices, func(a, b launch.Choice) bool { return a.Address == b.Address }) {
		lanes = append(lanes, peers)
	}
	d.listen(ctx, lanes)
	plan := d.plan()
	for _, lane := range lanes {
		d.call(ctx, lane, plan)
	}
	if d.tries(facts.SectionThroughput) {
		d.measure(ctx, lanes[len(lanes)-1])
	}
}

// lane decides where everybody listens.
func (d *drills) lane(section facts.Section, into func(*member) **facts.Mesh, choose func(*facts.Node) launch.Choice) *lane {
	l := &lane{section: section, into: into}
	holders := map[string]int{}
	for _, m := range d.crew {
		if m.Net == nil {
			continue
		}
		for _, i := range m.Net.Interfaces {
			for _, prefix := range i.Addresses {
				if address, err := netip.ParsePrefix(prefix); err == nil && !address.Addr().IsLinkLocalUnicast() {
					holders[address.Addr().String()]++
				}
			}
		}
	}
	for _, m := range d.crew {
		choice := choose(m.Node)
		l.choices = append(l.choices, choice)
		l.unfit = append(l.unfit, unfit(choice, holders))
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
func unfit(choice launch.Choice, holders map[string]int) string {
	address, err := netip.ParseAddr(choice.Address)
	switch {
	case choice.Error != "":
		return choice.Error
	case err != nil:
		return cmp.Or(choice.Rule, "there is no address to listen on")
	case address.IsLoopback():
		return choice.Address + " is a loopback address"
	case holders[choice.Address] > 1:
		return fmt.Sprintf("%s is held by %d nodes", choice.Address, holders[choice.Address])
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
			default:
				lane.ports[i] = listening[at].Ports
			}
		}
	})
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
	d.crew.each(func(i int, m *member) {
		listened := facts.Mesh{Interface: lane.choices[i].Interface, Address: lane.choices[i].Address, Ports: lane.ports[i], Error: lane.unfit[i]}
		switch {
		case lane.unseen[i] != "":
			m.miss(lane.section, "%s", lane.unseen[i])
			return
		case lane.unfit[i] != "":
			learn(m, lane.into(m), lane.section, listened, nil)
			return
		}
		peers := everybody
		if peers == nil {
			peers = encode(d.peers(lane, plan[i]))
		}
		ctx, cancel := within(ctx, callTime)
		defer cancel()
		mesh, err := ask[facts.Mesh](ctx, m.agent, methodMesh, meshRequest{
			Token: d.token, Node: m.Name, Peers: peers, AllPorts: len(d.crew) <= allPorts, Deadline: callTime,
		})
		listened.Reached, listened.Failed, listened.MSS = mesh.Reached, mesh.Failed, mesh.MSS
		learn(m, lane.into(m), lane.section, listened, err)
	})
}

// peers are those of some members that can be called on a lane.
func (d *drills) peers(lane *lane, members []int) []drill.Peer {
	peers := make([]drill.Peer, 0, len(members))
	for _, i := range members {
		if lane.unfit[i] != "" {
			continue
		}
		peer := drill.Peer{Name: d.crew[i].Name, Address: lane.choices[i].Address, Ports: lane.ports[i]}
		if ssh := d.crew[i].SSH; ssh != nil && len(ssh.Via) == 0 {
			peer.Control = ssh.Port
		}
		peers = append(peers, peer)
	}
	return peers
}

// measure has everybody send to the next one that listens, all at once.
func (d *drills) measure(ctx context.Context, lane *lane) {
	var ring []int
	for i := range d.crew {
		if lane.unfit[i] == "" {
			ring = append(ring, i)
		}
	}
	d.crew.each(func(i int, m *member) {
		at := slices.Index(ring, i)
		if at < 0 || len(ring) < 2 {
			m.miss(facts.SectionThroughput, "%s", cmp.Or(lane.unfit[i], "no other node listens"))
			return
		}
		ctx, cancel := within(ctx, d.Throughput)
		defer cancel()
		next := d.peers(lane, []int{ring[(at+1)%len(ring)]})[0]
		seen, err := ask[facts.Throughput](ctx, m.agent, methodSend, sendRequest{Token: d.token, Node: m.Name, To: next, For: d.Throughput})
		seen.Peer, seen.Interface = next.Name, lane.choices[i].Interface
		learn(m, &m.Throughput, facts.SectionThroughput, seen, err)
	})
}
