// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// aboutEndpoint is the command that says who gets to a store.
const aboutEndpoint = "preflight rendezvous %s -H hostfile"

// serves is whether somebody takes calls at the port on a node.
func serves(node *Node, port int) bool {
	return slices.ContainsFunc(node.Jobs.Ports, func(p facts.JobPort) bool { return p.Port == port && p.Listening })
}

// owners are the nodes that have an address, and each's interface; none for a name but that of the
// loopback.
func (j *job) owners(address string) map[string]string {
	if address == "localhost" {
		address = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(address)
	owned := map[string]string{}
	for _, node := range j.nodes {
		if err != nil || node.Jobs == nil {
			continue
		}
		if by, has := node.Jobs.Addresses[ip.String()]; has {
			owned[node.Name] = by
		}
	}
	return owned
}

// alike is whether two addresses are those of one node: its name, or one that no other has.
func (j *job) alike(one, other string) bool {
	named := func(address string) string {
		for _, node := range j.nodes {
			if address == node.Name || address == hostfile.Bare(node.Name) || address == node.Address {
				return node.Name
			}
		}
		owners := slices.Collect(maps.Keys(j.owners(address)))
		if len(owners) != 1 {
			return address
		}
		return owners[0]
	}
	return named(one) == named(other)
}

// hostPort is an endpoint as a rank is given it.
func hostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}
