// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

// misplacement is a node whose ranks will listen at an address to which no peer can connect.
type misplacement struct {
	node        *facts.Node
	choice      nccl.Choice
	fault       string   // the fault of the address, as the end of a sentence that begins with "NCCL will use eth1, "
	callers     []string // the nodes that got no answer at the address, if that is the fault
	explainedBy string   // the check that reports the cause, "" if there is no fault
	caller      string   // a node whose ranks must connect to the address
	byOrder     bool     // no node must connect to the address, because of the order of gloo's addresses
}

// hasTwin reports whether another machine also has the address at which preflight reached the node.
func (m misplacement) hasTwin() bool {
	return m.fault == heldTwice && m.choice.Interface == names.PeerInterface(m.node)
}

// misplaced returns the nodes whose rank address their peers cannot use. Each entry names the check
// that reports the reason. The reason also explains failed connections to these addresses, so they
// are not reported again.
func misplaced(view checks.View) map[string]misplacement {
	return checks.Remember(view, misplacements{}, func() map[string]misplacement { return placementOf(view).misplaced() })
}

type misplacements struct{}

func (p *placement) misplaced() map[string]misplacement {
	nodes := map[string]misplacement{}
	for _, node := range p.view.Everywhere() {
		if node.Net == nil {
			continue
		}
		if m, notKnown := p.of(node); notKnown == "" && m.explainedBy != "" && !p.view.Policy.SwitchesOff(m.explainedBy) {
			nodes[node.Name] = m
		}
	}
	return nodes
}

// placement holds the addresses on which the ranks of the fleet will listen, and what is known
// about these addresses.
type placement struct {
	view    checks.View
	library string // "NCCL", or "gloo" if a slot is only a process
	choices map[*facts.Node]nccl.Choice
	shared  map[netip.Addr]int // the number of machines that have each address
	// holdsOthers maps each node that has addresses of several other nodes to these addresses, with
	// the name of the other node.
	holdsOthers map[string]map[netip.Addr]string
	called      map[string]bool     // nodes to whose rank address another node tried to connect
	answered    map[string]int      // the number of other nodes that got an answer at the rank address of each node
	unanswered  map[string][]string // node → nodes that got no answer at its rank address, but got one at the address that leads to its peers
	isIPv6      bool                // whether most rank addresses are IPv6; ssh may use the other family
	// networks counts the chosen addresses on each network. It is computed on first use.
	networks map[netip.Prefix]int
}

// placementOf returns the placement. It computes the placement once, but each caller gets its own
// view in the result.
func placementOf(view checks.View) *placement {
	p := *checks.Remember(view, placementKey{}, func() *placement { return newPlacement(view) })
	p.view = view
	return &p
}

type placementKey struct{}

func newPlacement(view checks.View) *placement {
	p := &placement{
		view: view, library: "NCCL",
		choices: map[*facts.Node]nccl.Choice{}, shared: launch.SharedAddresses(view.Everywhere()),
		holdsOthers: launch.HoldsOthers(view.Everywhere()),
		called:      map[string]bool{}, answered: map[string]int{}, unanswered: map[string][]string{},
	}
	if !ranks.UsesNCCL(view) {
		p.library = "gloo"
	}
	families := map[bool]int{}
	for _, node := range view.Everywhere() {
		if node.Mesh != nil {
			p.record(node)
		}
		if node.Net == nil {
			continue
		}
		p.choices[node] = nccl.RankAddress(view.Launch, node)
		if address, err := netip.ParseAddr(p.choices[node].Address); err == nil && !address.IsLoopback() {
			families[address.Unmap().Is6()]++
		}
	}
	p.isIPv6 = families[true] > families[false]
	return p
}

// record adds the connections of one node. A path that passes small messages counts as reached,
// because path-mtu reports lost full packets.
func (p *placement) record(caller *facts.Node) {
	for callee := range caller.Mesh.Reached {
		if callee != caller.Name {
			p.called[callee] = true
			p.answered[callee]++
		}
	}
	for _, path := range caller.Mesh.Failed {
		p.called[path.Peer] = true
		if path.Outcome == facts.PathBlackhole || caller.PeerMesh == nil {
			continue
		}
		if _, answered := caller.PeerMesh.Reached[path.Peer]; answered {
			p.unanswered[path.Peer] = append(p.unanswered[path.Peer], caller.Name)
		}
	}
}

// of returns the fault of a node's rank address. If the address is unknown, notKnown is the reason.
func (p *placement) of(node *facts.Node) (m misplacement, notKnown string) {
	m = misplacement{node: node, choice: p.choices[node]}
	env := envOfRanks{view: p.view, node: node, vars: ranks.Env(p.view, node)}
	takesOwnName := p.library == "gloo" && env.value("GLOO_SOCKET_IFNAME") == ""
	if takesOwnName && node.Names == nil {
		return m, checks.Check{Needs: []facts.Section{facts.SectionNames}}.Missing(node) // the same words as the check that reports the missing section
	}
	if m.choice.Address == "" && m.choice.Error == "" {
		if takesOwnName {
			for _, f := range names.Unanswered(node) {
				return m, f.Summary // the same words as host-names
			}
		}
		return m, m.choice.Rule
	}
	m.fault = p.fault(node, m.choice)
	// Most peers reach the node at another address, but get no answer at its rank address.
	if m.fault == "" && len(p.unanswered[node.Name]) > p.answered[node.Name] && p.choices[node].Address != nccl.PeerAddress(node).Address {
		m.fault, m.callers = fmt.Sprintf("where other nodes get no answer (they do on %s)", names.PeerInterface(node)), p.unanswered[node.Name]
	}
	switch {
	case m.fault == "":
	case m.choice.Error != "" && len(ncclInterfaces(env))+len(exactInterfaces(env)) > 0:
		m.explainedBy = EnvSane.ID
	case takesOwnName && len(names.Own(p.view, node)) > 0:
		m.explainedBy = "host-names"
	default:
		m.explainedBy = "nic-choice"
	}
	if p.library == "gloo" && m.fault != "" && m.choice.Error == "" && !p.isUnsafe(m) {
		if caller := ranks.GlooMesh(p.view).Caller(node); caller != nil {
			m.caller = caller.Name
		} else {
			m.byOrder = true
		}
	}
	return m, ""
}

// fault returns the fault that the facts of all nodes show for an address, or "" for none.
func (p *placement) fault(node *facts.Node, choice nccl.Choice) string {
	address, err := netip.ParseAddr(choice.Address)
	if choice.Error != "" || err != nil {
		return "which is not an address"
	}
	at := names.InterfaceOf(node.Net, choice.Interface)
	switch {
	case address.IsLoopback():
		return "which leads only to the node itself"
	case p.holdsOthers[node.Name] != nil:
		others := slices.Sorted(maps.Values(p.holdsOthers[node.Name]))
		return fmt.Sprintf("but it also has the addresses of %s, so packets to them stay on it", hostfile.Fold(others))
	case p.answered[node.Name] > 0 && node.Mesh != nil && node.Mesh.Address == choice.Address:
		return ""
	case at.Name != "" && !at.Up:
		return "which is down"
	case p.shared[address] > 1:
		return heldTwice
	case address.Is6() && address.IsLinkLocalUnicast():
		return "which has only a link-local address"
	case address.Is6() && !p.isIPv6:
		return "an IPv6 address; the peers use IPv4"
	case !address.Is6() && p.isIPv6:
		return "an IPv4 address; the peers use IPv6"
	case isInside(at) && !p.called[node.Name] && choice.Interface != names.PeerInterface(node),
		at.Kind == "veth" && p.called[node.Name] && p.answered[node.Name] == 0 && remedy.IsApart(node):
		return "a network that exists only inside the node"
	}
	return ""
}

// isUnsafe reports whether every connection of a node may fail, in either direction. The reason is
// that another machine has the node's address, or that the node has addresses of other nodes.
func (p *placement) isUnsafe(m misplacement) bool {
	return m.hasTwin() || p.holdsOthers[m.node.Name] != nil
}

// isInside reports whether an interface connects only containers and virtual machines of one host.
// NCCL ignores interfaces named docker and, since 2.28.3, interfaces named virbr.
func isInside(i facts.Interface) bool { return i.Kind == "veth" || i.ForContainers() }

// sideways warns about interfaces that NCCL uses in addition to the first one. NCCL's sockets use
// up to sixteen interfaces, and NCCL's topology search decides which of them connect to each other.
// Source: NVIDIA/nccl 2.30, transport/net_socket.cc.
func (p *placement) sideways() []checks.Finding {
	if p.library != "NCCL" || len(p.view.Nodes) < len(p.view.All) || p.usesRDMA() {
		return nil
	}
	sockets := map[*facts.Node][]nccl.Choice{}
	members := map[netip.Prefix]map[string]bool{} // network → the addresses in it
	for _, node := range p.view.Nodes {
		sockets[node] = nccl.Sockets(p.view.Launch, node)
		for _, socket := range sockets[node] {
			if network, known := names.NetworkOf(node, socket.Address); known {
				if members[network] == nil {
					members[network] = map[string]bool{}
				}
				members[network][socket.Address] = true
			}
		}
	}
	f := checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "NCCL's sockets will also use interfaces that lead to no other node",
		WouldSee: "a hang or a connect error (No route to host, exceeded error retry count) at the first collective, after the ranks have met",
	}
	type use struct{ socket, node string }
	var lonely []use
	for _, node := range p.view.Nodes {
		m, notKnown := p.of(node)
		if notKnown != "" || m.explainedBy != "" {
			continue // this interface is already reported, and the same setting repairs it
		}
		for _, socket := range sockets[node][min(1, len(sockets[node])):] {
			network, known := names.NetworkOf(node, socket.Address)
			if known && len(members[network]) == 1 {
				lonely = append(lonely, use{socket.Interface, node.Name})
				f.Nodes = append(f.Nodes, node.Name)
			}
		}
	}
	if f.Nodes == nil {
		return nil
	}
	var got []string
	for _, uses := range text.GroupBy(lonely, func(u use) string { return u.socket }) {
		nodes := text.Map(uses.All, func(u use) string { return u.node })
		got = append(got, uses.Key+" on "+hostfile.Fold(nodes))
	}
	f.Got = strings.Join(got[:min(4, len(got))], ", ")
	f.Want = "only interfaces on which every node can be reached"
	f.Remedy = setForAll(p.view.Launch, "NCCL_SOCKET_IFNAME", nccl.IfnameFor(p.view.Nodes, p.wanted))
	return []checks.Finding{f}
}

// wanted returns the interface that the ranks of a node should use.
func (p *placement) wanted(node *facts.Node) string {
	if m, _ := p.of(node); m.explainedBy != "" {
		return names.PeerInterface(node)
	}
	return p.choices[node].Interface
}

// usesRDMA reports whether the ranks will send their data over RDMA instead of sockets.
func (p *placement) usesRDMA() bool {
	return slices.ContainsFunc(p.view.Nodes, func(node *facts.Node) bool {
		return hasActivePort(node.IB) && !nccl.KeptOffRDMA(ranks.Env(p.view, node))
	})
}

// heldTwice is the fault of an address that several nodes have. [alsoHeld] adds the names of the
// nodes.
const heldTwice = "an address that other nodes also have"

// alsoHeld returns heldTwice with the names of the nodes that have the address. It leaves out the
// nodes in beside.
func alsoHeld(view checks.View, address string, beside []string) string {
	var others []string
	for _, node := range holders(view, address) {
		if !slices.Contains(beside, node.Name) {
			others = append(others, node.Name)
		}
	}
	switch len(others) {
	case 0:
		return heldTwice
	case 1:
		return fmt.Sprintf("an address that %s also has", others[0])
	}
	return fmt.Sprintf("an address that %s also have", hostfile.Fold(others))
}

func holders(view checks.View, address string) (nodes []*facts.Node) {
	wanted, err := netip.ParseAddr(address)
	for _, node := range view.Everywhere() {
		if err == nil && slices.Contains(names.AddressesOf(node), wanted) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// twins returns the nodes in beside and all other nodes with the same address. preflight cannot
// tell which of these nodes is wrong.
func twins(view checks.View, address string, beside []string) []string {
	nodes := slices.Clone(beside)
	if others := holders(view, address); len(others) <= text.MostListed {
		for _, node := range others {
			if !slices.Contains(nodes, node.Name) {
				nodes = append(nodes, node.Name)
			}
		}
	}
	return nodes
}

// holdings lists the interface and the MAC address on which each machine has an address. An
// administrator needs both to find the machines in the tables of neighbours and switches.
func holdings(view checks.View, address string) string {
	var parts []string
	for _, node := range holders(view, address) {
		if held, _, known := names.HolderOf(node, address); known && held.MAC != "" {
			parts = append(parts, fmt.Sprintf("%s on %s (MAC %s)", node.Name, held.Name, held.MAC))
		}
	}
	return text.List(parts)
}

// giveBack returns the commands that remove the addresses of other nodes from a node.
func (p *placement) giveBack(node *facts.Node) (commands []fix.Command) {
	for _, address := range slices.SortedFunc(maps.Keys(p.holdsOthers[node.Name]), netip.Addr.Compare) {
		if held, network, known := names.HolderOf(node, address.String()); known && len(commands) < text.MostListed {
			commands = append(commands, fix.On("sudo ip addr del %s/%s dev %s   # until the next boot", fix.Host(address.String()), fix.Number(network.Bits()), fix.Name(held.Name)))
		}
	}
	return commands
}

// takeAway returns the commands that remove an address from the machines that peers reach at
// another address. It returns none if many machines have the address, as with docker0.
func takeAway(view checks.View, address string) (commands []fix.Command) {
	for _, node := range holders(view, address) {
		held, network, known := names.HolderOf(node, address)
		if peer := nccl.PeerAddress(node).Address; !known || peer == "" || peer == address {
			continue
		}
		commands = append(commands, fix.On("sudo ip addr del %s/%s dev %s   # until the next boot", fix.Host(address), fix.Number(network.Bits()), fix.Name(held.Name)).At(node.Name))
	}
	if len(commands) > text.MostListed {
		return nil
	}
	return commands
}
