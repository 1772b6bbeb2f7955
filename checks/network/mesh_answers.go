// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// isWrongAnswer reports whether the caller found that another machine answered.
func isWrongAnswer(outcome facts.PathOutcome) bool {
	return outcome == facts.PathMisdirected || outcome == facts.PathStranger
}

// judge returns a finding for each suspect. Wrong entries in the callers' neighbour tables come
// first, then answers of other machines, then obstacles.
func (m *meshCalls) judge(found []proof.Suspect) []checks.Finding {
	var astray []proof.Attempt
	var findings []checks.Finding
	var doubled []twoNICs
	for _, s := range found {
		calls, here := m.astray(s), m.twoNICs(s)
		doubled = append(doubled, here...)
		switch {
		case here != nil:
		case calls != nil:
			astray = append(astray, calls...)
		case isWrongAnswer(facts.PathOutcome(s.How)) && (s.Kind == proof.Inbound || s.Kind == proof.BothWays):
			findings = append(findings, m.wrongAnswers(s)...)
		default:
			findings = append(findings, m.finding(s))
		}
	}
	for _, of := range text.GroupBy(doubled, func(d twoNICs) string { return d.node.Name }) {
		all := of.All[0]
		for _, more := range of.All[1:] {
			all.calls = append(all.calls, more.calls...)
		}
		findings = append(findings, m.explainTwoNICs(all))
	}
	slices.SortStableFunc(astray, func(a, b proof.Attempt) int {
		return cmp.Compare(slices.Index(m.names, a.From), slices.Index(m.names, b.From))
	})
	for _, calls := range text.GroupBy(astray, func(c proof.Attempt) string { return c.To + " " + c.Path.MAC }) {
		findings = append(findings, m.duplicate(calls.All))
	}
	return findings
}

// wrongAnswers returns findings for addresses at which another machine answers, if several callers
// report it.
func (m *meshCalls) wrongAnswers(s proof.Suspect) []checks.Finding {
	var findings []checks.Finding
	in := slices.DeleteFunc(slices.Clone(s.Failed), func(c proof.Attempt) bool { return !slices.Contains(s.Nodes, c.To) })
	for _, to := range text.GroupBy(in, callee) {
		calls, call := to.All, to.All[0]
		answered := m.mostlyAnswered(calls)
		f := checks.Finding{
			Nodes:    []string{call.To},
			Summary:  "a machine outside this launch answers for its address",
			Got:      fmt.Sprintf("%s called %s", hostfile.Fold(callersOf(calls)), where(call.Path)),
			Want:     oneMachine,
			WouldSee: m.wouldSee(call.Path),
			Remedy:   append([]fix.Command{whoAnswers(call)}, fix.On("ip -br link   # the MAC addresses of the node itself").As(fix.Look)),
		}
		if answered != "" {
			f.Nodes = append(f.Nodes, answered)
			f.Summary = fmt.Sprintf("%s answers calls to %s: both have the address, or it is translated", answered, call.To)
			f.Remedy[1] = fix.On("ip -br addr").As(fix.Look)
		}
		findings = append(findings, m.weighed(f, calls))
	}
	return findings
}

const oneMachine = "one machine for every address"

func whoAnswers(call proof.Attempt) fix.Command {
	return fix.On("ip neigh show %s   # the MAC address that answers there", fix.Host(call.Path.To)).At(call.From).As(fix.Look)
}

// mostlyAnswered returns the node of this launch whose answer most callers received, or "" for
// none. At least two callers must have received it, because the report of a single caller accuses
// no node.
func (m *meshCalls) mostlyAnswered(calls []proof.Attempt) string {
	count := map[string]int{}
	for _, call := range calls {
		if call.Path.Answered != "" {
			count[call.Path.Answered]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		isNode := slices.ContainsFunc(m.view.All, func(node facts.Node) bool { return node.Name == name })
		if isNode && count[name] > 1 && 2*count[name] > len(calls) {
			return name
		}
	}
	return ""
}

// astray returns the calls of a suspect that went to another machine. It returns nil if these calls
// do not explain most failures of the suspect. A wrong MAC address alone proves nothing, because
// proxies answer for other machines and calls may still pass.
func (m *meshCalls) astray(s proof.Suspect) (astray []proof.Attempt) {
	for _, call := range s.Failed {
		if m.isAstray(call) {
			astray = append(astray, call)
		}
	}
	if s.Kind == proof.Outbound || 2*m.explainedBy(astray, s.Failed) < len(s.Failed) {
		return nil
	}
	return astray
}

// explainedBy returns the number of failures between the same two nodes as a call that went astray.
// A node with a wrong MAC address for its caller also sends its answers to another machine.
func (m *meshCalls) explainedBy(astray, failed []proof.Attempt) (count int) {
	between := map[[2]string]bool{}
	for _, call := range astray {
		between[[2]string{call.From, call.To}], between[[2]string{call.To, call.From}] = true, true
	}
	for _, call := range failed {
		if between[[2]string{call.From, call.To}] {
			count++
		}
	}
	return count
}

// isAstray reports whether a call went to a machine that is not the callee. The machine has none of
// the callee's MAC addresses, and is not a router that answers for several nodes.
func (m *meshCalls) isAstray(call proof.Attempt) bool {
	own := macsOf(m.nodes[call.To])
	if call.Path.MAC == "" || len(own) == 0 || slices.Contains(own, call.Path.MAC) {
		return false
	}
	return !call.Path.MACShared || m.withMAC(call.To, call.Path.MAC) != nil
}

func macsOf(node *facts.Node) (macs []string) {
	if node.Net == nil {
		return nil
	}
	for _, i := range node.Net.Interfaces {
		if i.MAC != "" && !i.Loopback {
			macs = append(macs, i.MAC)
		}
	}
	return macs
}

// duplicate returns the finding for an address for which two machines answer: the node and another
// machine. If only one node reports the other machine, that node may be wrong, so the finding names
// it too.
func (m *meshCalls) duplicate(calls []proof.Attempt) checks.Finding {
	path, node := calls[0].Path, m.nodes[calls[0].To]
	address, callers := fix.Host(path.To), callersOf(calls)
	held, network, known := names.HolderOf(node, path.To)
	own := macsOf(node)[0]
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Got:      fmt.Sprintf("%s called %s and got the MAC address %s, which %s does not have", hostfile.Fold(callers), where(path), path.MAC, node.Name),
		Want:     oneMachine,
		WouldSee: m.wouldSee(path),
		Remedy:   []fix.Command{whoAnswers(calls[0])},
	}
	if known {
		own = cmp.Or(held.MAC, own)
		f.Remedy = append(f.Remedy, fix.On("sudo arping -D -c 3 -I %s %s   # lists every other machine that answers", fix.Name(held.Name), address).At(node.Name).As(fix.Look))
	}
	other := fmt.Sprintf("a machine outside this launch (MAC %s)", path.MAC)
	takeAway := fix.Note("find the other machine by its MAC address in the switch's table, and remove the address there: ip addr del")
	if fellow := m.withMAC(node.Name, path.MAC); fellow != nil {
		other = fmt.Sprintf("%s (MAC %s)", fellow.Name, path.MAC)
		if len(callers) > 1 {
			f.Nodes = append(f.Nodes, fellow.Name)
		}
		switch theirs, _, also := names.HolderOf(fellow, path.To); {
		case also && known:
			takeAway = fix.On("sudo ip addr del %s/%s dev %s   # until the next boot", address, fix.Number(network.Bits()), fix.Name(theirs.Name)).At(fellow.Name)
		case !also:
			takeAway = fix.On("ip neigh show proxy; sysctl -a -r 'proxy_(arp|ndp)'   # it does not have the address, but answers for others").At(fellow.Name).As(fix.Look)
		}
	}
	f.Summary = fmt.Sprintf("two machines answer for %s: %s (MAC %s) and %s", path.To, node.Name, own, other)
	if len(callers) == 1 {
		f.Nodes = append(f.Nodes, callers[0])
		f.Got += "; only this node reports it"
	}
	f.Remedy = append(f.Remedy, takeAway, fix.On("sudo ip neigh flush to %s   # clears what the callers have cached", address).At(callers...).As(fix.Then))
	return f // the ranks of both nodes will fail to connect, because the answers go to the wrong machine
}

// withMAC returns a node of this launch, other than but, that has a MAC address. It returns nil for
// none.
func (m *meshCalls) withMAC(but, mac string) *facts.Node {
	if m.macs == nil {
		m.macs = map[string][]*facts.Node{}
		for _, node := range m.view.Everywhere() {
			for _, own := range macsOf(node) {
				m.macs[own] = append(m.macs[own], node)
			}
		}
	}
	return names.First(m.macs[mac], func(node *facts.Node) bool { return node.Name != but })
}

// silence is a call that failed because no machine on the link answered for the address, or because
// the router to the address did not answer.
type silence struct {
	call    proof.Attempt
	of      string // the address for which no machine answered
	gateway bool
	asked   string // the protocol that got no answer: "ARP", or "neighbour discovery" for IPv6
}

func silenceOf(s proof.Suspect) silence {
	at := slices.IndexFunc(s.Failed, func(call proof.Attempt) bool { return call.Path.Outcome == facts.PathUnresolved })
	path := s.Failed[at].Path
	found := silence{s.Failed[at], cmp.Or(path.Gateway, path.To), path.Gateway != "", "ARP"}
	if address, err := netip.ParseAddr(found.of); err == nil && address.Is6() {
		found.asked = "neighbour discovery"
	}
	return found
}

// cause returns the reason why no machine answers. Firewalls that filter IP do not stop ARP, but
// they may stop neighbour discovery.
func (s silence) cause(of proof.Suspect) string {
	firewall := ""
	if s.asked != "ARP" {
		firewall = ", or a firewall drops ICMPv6"
	}
	switch {
	case s.gateway:
		return fmt.Sprintf("the router %s does not answer %s", s.of, s.asked)
	case of.Kind == proof.Outbound:
		return fmt.Sprintf("its %s requests get no answer: another VLAN, or filtered broadcasts%s", s.asked, firewall)
	}
	return fmt.Sprintf("no machine answers %s for the address: another VLAN, or answers are off%s", s.asked, firewall)
}

// explain adds commands that find the missing machine. Some run on the caller and some on the
// suspects.
func (s silence) explain(m *meshCalls, f *checks.Finding) {
	f.Want, f.WouldSee = fmt.Sprintf("an answer to %s for every address on the link", s.asked), m.wouldSee(s.call.Path)
	f.Remedy = []fix.Command{fix.On("ip neigh show %s   # FAILED or INCOMPLETE: no machine has answered", fix.Host(s.of)).At(s.call.From).As(fix.Look)}
	switch device := m.nodes[s.call.From].Mesh.Interface; {
	case s.asked != "ARP":
		f.Remedy = append(f.Remedy, fix.On("sudo ip6tables -S; sudo nft list ruleset; ip -br link; bridge vlan   # ICMPv6 types 133 to 136 must pass").As(fix.Look))
	case s.gateway:
		f.Remedy = append(f.Remedy, fix.On("sudo arping -c 3 -I %s %s", fix.Name(device), fix.Host(s.of)).At(s.call.From).As(fix.Look))
	default:
		f.Remedy = append(f.Remedy, fix.On("sudo arping -c 3 -I %s %s", fix.Name(device), fix.Host(s.of)).At(s.call.From).As(fix.Look),
			fix.On("sysctl -a -r 'arp_(ignore|filter)$'; sudo nft list ruleset; ip -br link; bridge vlan   # what keeps it from answering").As(fix.Look))
	}
}

type lostKey struct{}

// lostCalls returns the calls of the mesh test that a full neighbour table lost, each with the node
// that has the table. A node without room for a caller answers neither the caller's ARP request nor
// its call, so the caller gets no answer at all. A firewall looks the same. The kernel's overflow
// counter tells the two apart, if that node did not reach the caller either.
//
// Source: arp_process in net/ipv4/arp.c, whose reply depends on neigh_event_ns; ndisc_recv_ns in
// net/ipv6/ndisc.c; Linux 6.18.
func lostCalls(view checks.View) map[*facts.Path]string {
	return checks.Remember(view, lostKey{}, func() map[*facts.Path]string {
		lost := map[*facts.Path]string{}
		for _, part := range []func(*facts.Node) *facts.Mesh{proof.RankMesh, proof.PeerMesh} {
			overflown := map[string]*facts.Mesh{}
			for _, node := range view.Everywhere() {
				if mesh := part(node); mesh != nil && mesh.Overflows > 0 {
					overflown[node.Name] = mesh
				}
			}
			for _, node := range view.Everywhere() {
				mesh := part(node)
				if mesh == nil || len(overflown) == 0 {
					continue
				}
				for i := range mesh.Failed {
					if full := fullTable(node.Name, mesh.Failed[i], overflown); overflown[full] != nil {
						lost[&mesh.Failed[i]] = full
					}
				}
			}
		}
		return lost
	})
}

// fullTable returns the node whose full table may have lost a call, or "" for none.
func fullTable(caller string, path facts.Path, overflown map[string]*facts.Mesh) string {
	switch theirs := overflown[path.Peer]; path.Outcome {
	case facts.PathOverflow:
		return caller
	case facts.PathDropped, facts.PathUnresolved, facts.PathSilent:
		if theirs == nil {
			return ""
		}
		if _, reached := theirs.Reached[caller]; !reached {
			return path.Peer
		}
	}
	return ""
}

// twoNICs is a node with two interfaces in one network. The node has two connected routes to that
// network and uses one of them for all packets, whichever interface holds their source address.
type twoNICs struct {
	node  *facts.Node
	leave *facts.Interface // the interface by which packets to the peers leave
	other *facts.Interface // the interface in the same network by which they should leave
	calls []proof.Attempt  // failed calls that this explains
}

// twoNICs returns the nodes whose second interface in a network explains failed calls of a suspect.
func (m *meshCalls) twoNICs(s proof.Suspect) (found []twoNICs) {
	for _, name := range m.names {
		var calls []proof.Attempt
		var seen twoNICs
		for _, call := range s.Failed {
			peer := call.To
			if call.To == name {
				peer = call.From
			}
			if call.From != name && call.To != name {
				continue
			}
			if leave, other := bypassed(m.nodes[name], peer); leave != nil {
				calls, seen = append(calls, call), twoNICs{node: m.nodes[name], leave: leave, other: other}
			}
		}
		if calls != nil {
			seen.calls = calls
			found = append(found, seen)
		}
	}
	return found
}

// bypassed returns the interface by which packets to a peer leave, if it is not the interface of the
// ranks and both are in one network. It returns nil otherwise.
func bypassed(node *facts.Node, peer string) (leave, other *facts.Interface) {
	network, known := meshNetwork(node)
	if !known {
		return nil, nil
	}
	for _, route := range node.Net.Routes {
		if route.Name != peer || route.Gateway != "" || route.Interface == node.Mesh.Interface {
			continue
		}
		for i := range node.Net.Interfaces {
			held := &node.Net.Interfaces[i]
			inNetwork := slices.ContainsFunc(held.Addresses, func(text string) bool { return masked(text) == network.String() })
			switch {
			case held.Name == node.Mesh.Interface:
				other = held
			case held.Name == route.Interface && inNetwork:
				leave = held
			}
		}
	}
	if leave == nil || other == nil {
		return nil, nil
	}
	return leave, other
}

// masked returns the network of an address with a prefix length, or "" if text is none.
func masked(text string) string {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return ""
	}
	return prefix.Masked().String()
}

// explainTwoNICs returns the finding for a node with two interfaces in one network.
func (m *meshCalls) explainTwoNICs(found twoNICs) checks.Finding {
	network, _ := meshNetwork(found.node)
	spare := found.leave // the interface at which preflight did not reach the node
	if held, _, known := names.HolderOf(found.node, found.node.Address); known && held.Name == found.leave.Name {
		spare = found.other
	}
	f := checks.Finding{
		Nodes:    []string{found.node.Name},
		Summary:  fmt.Sprintf("%s and %s are both in %s, and packets to its peers leave by %s", found.other.Name, found.leave.Name, network, found.leave.Name),
		Got:      m.got(proof.Suspect{Failed: found.calls}),
		Want:     "one interface in each network, or a bond of both",
		WouldSee: m.wouldSee(found.calls[0].Path),
		Remedy:   []fix.Command{fix.On("ip route show %s; ip -br addr", fix.Name(network.String())).As(fix.Look)},
	}
	for _, text := range spare.Addresses {
		if masked(text) == network.String() {
			f.Remedy = append(f.Remedy, fix.On("sudo ip addr del %s dev %s", fix.Name(text), fix.Name(spare.Name)).Remark("until the next boot"))
		}
	}
	f.Remedy = append(f.Remedy, fix.Note("give %s an address in a network of its own, or bond it with the other interface", fix.Text(spare.Name)))
	return m.weighed(f, found.calls)
}
