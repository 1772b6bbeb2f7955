// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/proof"
	"preflight/facts"
)

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
