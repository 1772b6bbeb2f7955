// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
)

// dockersOwn are the pools that Docker takes subnets from where nobody has named any.
//
// Source: moby/moby 591ae18d (2026), daemon/libnetwork/ipamutils/utils.go.
var dockersOwn = []facts.AddressPool{
	{Base: "172.17.0.0/16", Size: 16}, {Base: "172.18.0.0/16", Size: 16}, {Base: "172.19.0.0/16", Size: 16},
	{Base: "172.20.0.0/14", Size: 16}, {Base: "172.24.0.0/14", Size: 16}, {Base: "172.28.0.0/14", Size: 16},
	{Base: "192.168.0.0/16", Size: 20},
}

// mostSubnets is how many of a pool are gone through: what is further on is taken by nobody.
const mostSubnets = 64

// judgePools warns of what the next network of a node's Docker would get: nothing at all, or
// addresses of the cluster that the node has no address beside, so that Docker does not know.
func judgePools(node *facts.Node, addresses heldByAll) []checks.Finding {
	if node.Net.Docker == nil || names.InterfaceOf(node.Net, "docker0").Name == "" {
		return nil
	}
	pools := node.Net.Docker.Pools
	if len(pools) == 0 {
		pools = dockersOwn
	}
	free := freeOf(pools, node.Net)
	f := checks.Finding{Nodes: []string{node.Name}, Verdict: checks.Warn, Want: "subnets for containers that nobody else uses", Remedy: dockerPools(node)}
	if len(free) == 0 {
		f.Summary = "Docker has no subnet left: the next docker network create fails, and so does docker compose up"
		f.Got = fmt.Sprintf("all of %s are taken", shownPools(pools))
		f.WouldSee = "Error response from daemon: all predefined address pools have been fully subnetted"
		return []checks.Finding{f}
	}
	for i, subnet := range free {
		if covered := addresses.within(subnet, node); covered != nil {
			f.Summary = fmt.Sprintf("the pools of Docker overlap the addresses of %s: one of its next networks takes them", hostfile.Fold(covered))
			f.Got = fmt.Sprintf("%s, the %s network from now on", subnet, humanize.Ordinal(i+1))
			f.WouldSee = "nothing, until somebody makes that network: then No route to host"
			return []checks.Finding{f}
		}
	}
	return nil
}

// freeOf are the subnets of pools that overlap no network which the machine itself is on, in
// the order in which Docker hands them out. What a bridge has is taken, and what any other
// interface has is passed over.
func freeOf(pools []facts.AddressPool, seen *facts.Net) (free []netip.Prefix) {
	var taken []netip.Prefix
	for _, i := range seen.Interfaces {
		for _, text := range i.IPv4() {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				taken = append(taken, prefix.Masked())
			}
		}
	}
	for _, pool := range pools {
		base, err := netip.ParsePrefix(pool.Base)
		if err != nil || !base.Addr().Is4() || pool.Size < base.Bits() || pool.Size > 32 {
			continue
		}
		subnet := netip.PrefixFrom(base.Masked().Addr(), pool.Size)
		for n := 0; n < mostSubnets && base.Overlaps(subnet); n++ {
			if !slices.ContainsFunc(taken, subnet.Overlaps) {
				free = append(free, subnet)
			}
			subnet = after(subnet)
		}
	}
	return free
}

// after is the subnet of the same size that follows one of IPv4.
func after(subnet netip.Prefix) netip.Prefix {
	b := subnet.Addr().As4()
	next := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	next += 1 << (32 - subnet.Bits())
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(next >> 24), byte(next >> 16), byte(next >> 8), byte(next)}), subnet.Bits())
}

func shownPools(pools []facts.AddressPool) (text string) {
	for i, pool := range pools {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s by /%d", pool.Base, pool.Size)
	}
	return text
}

// dockerPools gives Docker subnets that are nobody's.
func dockerPools(node *facts.Node) []fix.Command {
	return []fix.Command{
		remedy.OnMachine(node, fix.On("docker network ls && docker network prune   # removes those that no container uses")),
		remedy.OnMachine(node, fix.On(`grep -s . /etc/docker/daemon.json; echo '{"bip": "10.255.0.1/24", "default-address-pools": [{"base": "10.255.0.0/16", "size": 24}]}'   # what to have there, with a network that is free at your site; then: sudo systemctl restart docker`)),
	}
}
