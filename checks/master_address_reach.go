package checks

import (
	"net/netip"
	"slices"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// cutOff says who cannot reach the store because of its address: those who do
// at the one that leads to node 0's peers or, where that was not tried,
// everybody, when the address is on a network of node 0 alone. "" for nobody.
func (m masterPlace) cutOff(holder *facts.Node, address netip.Addr) string {
	others, barred := 0, 0
	var elsewhere []string // of those that are barred here
	for i := range m.view.All {
		node := &m.view.All[i]
		if node.Rendezvous == nil || node == holder || node == m.first {
			continue
		}
		others++
		if !isBarred(node.Rendezvous) {
			continue
		}
		barred++
		if isCounted(node.PeerRendezvous) {
			elsewhere = append(elsewhere, node.Name)
		}
	}
	everybody := others > 0 && barred == others
	switch {
	case everybody && (elsewhere != nil || m.leadsNowhere(holder, address)):
		return "no other node reaches node 0"
	case elsewhere != nil:
		return hostfile.Fold(elsewhere) + " cannot reach node 0"
	}
	return ""
}

// leadsNowhere is whether nothing but the address can be why nobody got there:
// it is on a network of its own and, where nobody got to the other address
// either, that is one inside the machine. Else it may be the port.
func (m masterPlace) leadsNowhere(holder *facts.Node, address netip.Addr) bool {
	if holder == nil || m.isNear(holder, address) {
		return false
	}
	held, _, known := holderOf(holder, address.String())
	return m.first.PeerRendezvous == nil || known && isInside(*held)
}

// isBarred is whether a node did not get through to the store.
func isBarred(seen *facts.Rendezvous) bool {
	return slices.Contains([]facts.Hop{facts.HopConnect, facts.HopValidate, facts.HopJoin}, seen.Failed)
}

// isCounted is whether a node joined, met it all others or not.
func isCounted(seen *facts.Rendezvous) bool {
	return seen != nil && (seen.Failed == "" || seen.Failed == facts.HopWait && seen.Joined > 0)
}

// isNear is whether an address is the one that leads to the holder's peers, or
// on the same network as an address of another node.
func (m masterPlace) isNear(holder *facts.Node, address netip.Addr) bool {
	if launch.PeerAddress(holder).Address == m.Host {
		return true
	}
	network, known := networkOf(holder, address.String())
	return known && slices.ContainsFunc(m.view.Nodes, func(node *facts.Node) bool {
		return node != holder && slices.ContainsFunc(addressesOf(node), network.Contains)
	})
}
