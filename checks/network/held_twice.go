// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

// heldTwice is a fault of an address: who else holds it [alsoHeld] says.
const heldTwice = "an address that other nodes also have"

// alsoHeld is heldTwice with those that hold the address beside some nodes.
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

// twins are nodes and the others that hold the same address, by which one was reached: which
// of them is wrong nobody can tell from here, and a launch can do with none.
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

// holdings says on which card each machine has an address, so that it is found in the tables
// of neighbours and switches.
func holdings(view checks.View, address string) string {
	var parts []string
	for _, node := range holders(view, address) {
		if held, _, known := names.HolderOf(node, address); known && held.MAC != "" {
			parts = append(parts, fmt.Sprintf("%s on %s (MAC %s)", node.Name, held.Name, held.MAC))
		}
	}
	return text.List(parts)
}

// giveBack has the addresses taken from a node by which others were reached.
func (p *placement) giveBack(node *facts.Node) (commands []fix.Command) {
	for _, address := range slices.SortedFunc(maps.Keys(p.holdsOthers[node.Name]), netip.Addr.Compare) {
		if held, network, known := names.HolderOf(node, address.String()); known && len(commands) < text.MostListed {
			commands = append(commands, fix.On("sudo ip addr del %s/%s dev %s   # until the next boot", fix.Host(address.String()), fix.Number(network.Bits()), fix.Name(held.Name)))
		}
	}
	return commands
}

// takeAway has an address taken from the machines that the others reach at another one, on
// few of them: where all have it, as docker0's, it is none to meet at.
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
