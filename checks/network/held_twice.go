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
