// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// Serves reports whether a node will serve the store of the rendezvous. why is the rule that
// decides. In torchrun's c10d mode every node decides for itself, so no node or several nodes may
// serve the store. If facts are unknown, serves is false and why says so.
func (p Prediction) Serves(m Endpoint, node, first *facts.Node) (serves bool, why string) {
	switch {
	case p.Rendezvous == RendezvousC10d:
		return matchesHostname(m.Host, node)
	case node.Name == first.Name:
		return true, "it is node 0, which serves"
	}
	return false, "only node 0 serves"
}

// matchesHostname reports whether a node treats the host of an endpoint as itself.
//
// Source: pytorch/pytorch, elastic/rendezvous/utils.py, _matches_machine_hostname, the same in 2.0,
// 2.4 and 2.15. In 1.13 the addresses of the endpoint's name do not count.
func matchesHostname(host string, node *facts.Node) (matches bool, why string) {
	address, isAddress := netip.ParseAddr(host)
	switch {
	case host == "localhost", isAddress == nil && address.IsLoopback():
		return true, fmt.Sprintf("every node treats %s as its own address", host)
	case node.Names == nil:
		return false, "not known: how it resolves names was not seen"
	case host == node.Names.Own:
		return true, fmt.Sprintf("its hostname %s is the endpoint's", host)
	}
	own, known := LookedUp(node.Names, node.Names.Own)
	switch {
	case !known:
		return false, fmt.Sprintf("not known: what its own hostname %s resolves to was not seen", node.Names.Own)
	case len(own) == 0:
		return false, fmt.Sprintf("its own hostname %s does not resolve, so torchrun fails (socket.gaierror)", node.Names.Own)
	case host == node.Names.FQDN:
		return true, fmt.Sprintf("the full name of its hostname %s is the endpoint's", node.Names.Own)
	case isAddress == nil && slices.Contains(own, address):
		return true, fmt.Sprintf("its hostname %s resolves to %s", node.Names.Own, host)
	}
	return sharesAddress(host, node, own)
}

// sharesAddress applies the second part of matchesHostname's rule. It compares the addresses of the
// endpoint's name on the node with those of the node's own name.
func sharesAddress(host string, node *facts.Node, own []netip.Addr) (shares bool, why string) {
	no := fmt.Sprintf("no address of its hostname %s (%s) is %s", node.Names.Own, listed(own), host)
	if _, err := netip.ParseAddr(host); err == nil {
		return false, no
	}
	if node.Python != nil && node.Python.Torch != nil && hostfile.Before(node.Python.Torch.Version, "2.0") {
		return false, fmt.Sprintf("its hostname is %s, and torch before 2.0 does not compare what %s resolves to", node.Names.Own, host)
	}
	theirs, known := LookedUp(node.Names, host)
	if !known {
		return false, fmt.Sprintf("not known: what %s resolves to on it was not seen", host)
	}
	for _, address := range theirs {
		if slices.Contains(own, address) {
			return true, fmt.Sprintf("its hostname %s and %s both resolve to %s", node.Names.Own, host, address)
		}
	}
	if len(theirs) == 0 {
		return false, fmt.Sprintf("its hostname is %s, and %s does not resolve on it", node.Names.Own, host)
	}
	return false, fmt.Sprintf("%s (%s)", no, listed(theirs))
}

func listed(addresses []netip.Addr) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(addresses), "[]"), " ", ", ")
}

// SecondRendezvous returns the node that serves torchrun's second rendezvous in c10d mode, which is
// the node of group rank 0. That is not the endpoint's host but the node whose full name sorts
// first by characters. This node publishes its full name, and every node must resolve that name.
// Nodes with unknown names are left out. The result is nil and "" if no name is known.
//
// Source: pytorch/pytorch 2.15, elastic/rendezvous/dynamic_rendezvous.py, _NodeDescGenerator and
// mark_rendezvous_complete.
func (p Prediction) SecondRendezvous(nodes []*facts.Node) (host *facts.Node, fqdn string) {
	for _, node := range nodes {
		if node.Names == nil {
			continue
		}
		name := cmp.Or(node.Names.Published, node.Names.FQDN, node.Names.Own)
		if name != "" && (host == nil || name < fqdn) {
			host, fqdn = node, name
		}
	}
	return host, fqdn
}

// LooksUp returns a function that reports whether every node must resolve a host name. These names
// are that of the rendezvous and, if torchrun has a second rendezvous, that of group rank 0. If the
// launcher makes nodes start each other, nodes must resolve all host names. A node's own host name
// is not included.
func (p Prediction) LooksUp(nodes []*facts.Node) func(name string) bool {
	if p.NodesStartOthers() {
		return func(string) bool { return true }
	}
	meeting, second := p.EndpointHost(), ""
	if p.Torchrun() && p.Rendezvous != RendezvousStatic {
		_, second = p.SecondRendezvous(nodes)
	}
	return func(name string) bool { return name == meeting || name == second }
}

// StoreGeneration returns the generation of the store protocol in a torch release. It returns the
// newest generation for "" and for invalid versions.
//
// Source: pytorch/pytorch, TCPStoreBackend.hpp: VALIDATE came with pull request 107607, PING with
// 129261 and 129985.
func StoreGeneration(torch string) facts.Generation {
	switch {
	case hostfile.Before(torch, "2.1"):
		return facts.GenerationLegacy
	case hostfile.Before(torch, "2.5"):
		return facts.GenerationValidates
	}
	return facts.GenerationPings
}

// StoreMismatch returns what happens if a client of one generation connects to a server of another.
// It returns "" if client and server understand each other.
//
// Source: pytorch/pytorch, TCPStoreBackend.cpp and TCPStoreLibUvBackend.cpp.
func StoreMismatch(client, server facts.Generation) string {
	switch {
	case client == server:
		return ""
	case client == facts.GenerationLegacy:
		return "the store rejects a client without a greeting: it closes the connection (Connection reset by peer), or with libuv never answers, so the client hangs"
	case server == facts.GenerationLegacy:
		return "the store reads the client's greeting as a key of some terabytes: the connection is reset, or rank 0 runs out of memory, or both hang"
	case client == facts.GenerationPings:
		return "the store does not know the client's ping and closes the connection: the client tries again until its timeout (failed to connect/validate)"
	}
	return "" // a newer store understands all requests of a client of 2.1 to 2.4
}
