package network

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
)

// isUnresolved is whether nobody on the caller's link answered.
func isUnresolved(call proof.Attempt) bool { return call.Path.Outcome == facts.PathUnresolved }

// unresolvedCause is why nobody answers for addresses on a link. A firewall that filters IP is
// none of it: ARP passes by that.
func unresolvedCause(s proof.Suspect) string {
	call := s.Failed[slices.IndexFunc(s.Failed, isUnresolved)]
	switch {
	case call.Path.Gateway != "":
		return fmt.Sprintf("the router %s does not answer ARP", call.Path.Gateway)
	case s.Kind == proof.Outbound:
		return "its ARP requests get no answer, as where it is on another VLAN or what it sends to all is filtered"
	}
	return "nobody answers ARP for the address: it is on another VLAN, or set not to answer"
}

// findOnLink looks for who does not answer, from a caller and at the node itself.
func (m *meshCalls) findOnLink(s proof.Suspect) []fix.Command {
	call := s.Failed[slices.IndexFunc(s.Failed, isUnresolved)]
	silent, device := fix.Host(call.Path.To), fix.Code("INTERFACE")
	if call.Path.Gateway != "" {
		silent = fix.Host(call.Path.Gateway)
	}
	if name := m.nodes[call.From].Mesh.Interface; name != "" {
		device = fix.Name(name)
	}
	commands := []fix.Command{
		fix.On("ip neigh show %s   # FAILED or INCOMPLETE: nobody has answered", silent).At(call.From),
		fix.On("sudo arping -c 3 -I %s %s", device, silent).At(call.From),
	}
	if _, network, known := names.HolderOf(m.nodes[call.From], m.nodes[call.From].Mesh.Address); known && network.Addr().Is6() {
		commands = []fix.Command{
			commands[0],
			fix.On("sudo ip6tables -S; sudo nft list ruleset   # neighbour discovery is ICMPv6 of types 135 and 136, and must pass").At(call.From, call.To),
		}
	}
	if call.Path.Gateway == "" {
		commands = append(commands, fix.On("sysctl -a -r 'arp_(ignore|filter)$'; sudo nft list ruleset; ip -br link; bridge vlan   # what keeps it from answering").At(call.To))
	}
	return commands
}

// lostToTables are the calls of the mesh that a full table of neighbours has swallowed: how
// many by the node that has it, and which.
type lostToTables struct {
	of    map[string]int
	calls map[*facts.Path]string // → the node
}

type lostKey struct{}

// lostCalls finds them. Who has no room for a caller answers neither its ARP request nor its
// call: the caller sees nothing but silence. That it is this and no firewall shows in the
// kernel's count there, as long as that node has not reached the caller either.
//
// Source: arp_process in net/ipv4/arp.c, whose reply depends on neigh_event_ns; ndisc_recv_ns
// in net/ipv6/ndisc.c; Linux 6.18.
func lostCalls(view checks.View) lostToTables {
	return checks.Remember(view, lostKey{}, func() lostToTables {
		lost := lostToTables{map[string]int{}, map[*facts.Path]string{}}
		for _, of := range []func(*facts.Node) *facts.Mesh{
			func(node *facts.Node) *facts.Mesh { return node.Mesh }, func(node *facts.Node) *facts.Mesh { return node.PeerMesh },
		} {
			overflown := map[string]*facts.Mesh{}
			for _, node := range view.Everywhere() {
				if mesh := of(node); mesh != nil && mesh.Overflows > 0 {
					overflown[node.Name] = mesh
				}
			}
			if len(overflown) == 0 {
				continue
			}
			for _, node := range view.Everywhere() {
				if mesh := of(node); mesh != nil {
					lost.take(node.Name, mesh, overflown)
				}
			}
		}
		return lost
	})
}

func (l *lostToTables) take(caller string, mesh *facts.Mesh, overflown map[string]*facts.Mesh) {
	for i := range mesh.Failed {
		path := &mesh.Failed[i]
		full := ""
		switch path.Outcome {
		case facts.PathOverflow:
			full = caller
		case facts.PathDropped, facts.PathUnresolved, facts.PathSilent:
			theirs := overflown[path.Peer]
			if theirs == nil {
				continue
			}
			if _, reached := theirs.Reached[caller]; !reached {
				full = path.Peer
			}
		}
		if full != "" && overflown[full] != nil {
			l.of[full]++
			l.calls[path] = full
		}
	}
}
