// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"fmt"
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
	"preflight/launch/nccl"
)

var ContainerNetworks = checks.Check{
	ID:       "container-networks",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Run:      judgeBridges,
}

func judgeBridges(view checks.View) (findings []checks.Finding) {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	addresses := addressesOf(view)
	for _, node := range view.Nodes {
		if ranks.ContainerOf(node) != "" {
			continue // the interfaces belong to the container
		}
		_, network, _ := names.HolderOf(node, node.Address)
		for _, bridge := range node.Net.Interfaces {
			if bridge.Kind == "veth" || !bridge.ForContainers() {
				continue
			}
			for _, subnet := range networksOf(bridge) {
				remedies := dockerPools(node)
				if strings.HasPrefix(bridge.Name, "virbr") {
					remedies = libvirtNetwork(node, bridge)
				}
				f := checks.Finding{Nodes: []string{node.Name}, Got: fmt.Sprintf("%s has %s", bridge.Name, subnet), Want: "container subnets that overlap no network of the cluster", Remedy: remedies}
				switch covered := addresses.within(subnet, node); {
				case subnet.IsSingleIP(): // such a network covers no other address
					continue
				case covered != nil:
					f.Summary = fmt.Sprintf("the container network of %s covers the addresses of %s", bridge.Name, hostfile.Fold(covered))
				case network.IsValid() && network.Overlaps(subnet):
					f.Verdict = checks.Warn
					f.Summary = fmt.Sprintf("the container network of %s overlaps the node's own network", bridge.Name)
					f.Got += fmt.Sprintf(", the node is on %s", network)
					f.WouldSee = "nothing, until a node gets an address there: then No route to host"
				default:
					continue
				}
				findings = append(findings, f)
			}
		}
		findings = append(findings, judgePools(node, addresses)...)
	}
	return findings
}

// covers reports whether a container network of a node covers an address of a peer.
func covers(node, peer *facts.Node) bool {
	for _, bridge := range node.Net.Interfaces {
		if bridge.Kind != "veth" && bridge.ForContainers() {
			for _, subnet := range networksOf(bridge) {
				if !subnet.IsSingleIP() && slices.ContainsFunc([]string{peer.Address, peer.Mesh.Address}, func(address string) bool {
					at, err := netip.ParseAddr(address)
					return err == nil && subnet.Contains(at.Unmap())
				}) {
					return true
				}
			}
		}
	}
	return false
}

// held is an address at which preflight reached a node, or at which the node's ranks will listen.
type held struct {
	netip.Addr
	by *facts.Node
}

// heldByAll holds the addresses of all nodes in ascending order.
type heldByAll []held

func addressesOf(view checks.View) (all heldByAll) {
	choices := placementOf(view).choices
	for _, node := range view.Everywhere() {
		for _, text := range []string{node.Address, choices[node].Address} {
			if address, err := netip.ParseAddr(text); err == nil {
				all = append(all, held{address.Unmap(), node})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return a.Compare(b.Addr) })
	return all
}

// within returns the nodes that have an address in a network. It leaves out the node but.
func (all heldByAll) within(network netip.Prefix, but *facts.Node) (names []string) {
	from, _ := slices.BinarySearchFunc(all, network.Addr(), func(h held, first netip.Addr) int { return h.Compare(first) })
	for _, h := range all[from:] {
		if !network.Contains(h.Addr) {
			break
		}
		if h.by != but && !slices.Contains(names, h.by.Name) {
			names = append(names, h.by.Name)
		}
	}
	return names
}

// networksOf returns the IPv4 networks in which an interface has an address.
func networksOf(i facts.Interface) (networks []netip.Prefix) {
	for _, text := range i.IPv4() {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			networks = append(networks, prefix.Masked())
		}
	}
	return networks
}

// dockersOwn lists Docker's default address pools.
//
// Source: moby/moby 591ae18d (2026), daemon/libnetwork/ipamutils/utils.go.
var dockersOwn = []facts.AddressPool{
	{Base: "172.17.0.0/16", Size: 16}, {Base: "172.18.0.0/16", Size: 16}, {Base: "172.19.0.0/16", Size: 16},
	{Base: "172.20.0.0/14", Size: 16}, {Base: "172.24.0.0/14", Size: 16}, {Base: "172.28.0.0/14", Size: 16},
	{Base: "192.168.0.0/16", Size: 20},
}

// judgePools warns if Docker has no subnet left for its next network, or if the next subnet would
// cover other nodes. Docker avoids only networks in which the node itself has an address.
func judgePools(node *facts.Node, addresses heldByAll) []checks.Finding {
	if node.Net.Docker == nil || names.InterfaceOf(node.Net, "docker0").Name == "" {
		return nil
	}
	pools := node.Net.Docker.Pools
	if len(pools) == 0 {
		pools = dockersOwn
	}
	free := freeOf(pools, node.Net)
	f := checks.Finding{Nodes: []string{node.Name}, Verdict: checks.Warn, Want: "container subnets that overlap no network of the cluster", Remedy: dockerPools(node)}
	if len(free) == 0 {
		f.Summary = "Docker has no free subnet left: docker network create and compose up will fail"
		f.Got = "every subnet of its address pools is in use"
		f.WouldSee = "Error response from daemon: all predefined address pools have been fully subnetted"
		return []checks.Finding{f}
	}
	for _, subnet := range free {
		if covered := addresses.within(subnet, node); covered != nil {
			f.Summary = fmt.Sprintf("one of Docker's next networks will cover the addresses of %s", hostfile.Fold(covered))
			f.Got = subnet.String()
			f.WouldSee = "nothing, until that network is created: then No route to host"
			return []checks.Finding{f}
		}
	}
	return nil
}

// freeOf returns the subnets that Docker may still assign, in the order in which Docker assigns
// them. These subnets overlap no network of the machine.
func freeOf(pools []facts.AddressPool, seen *facts.Net) (free []netip.Prefix) {
	const most = 64 // per pool; Docker rarely needs more
	var taken []netip.Prefix
	for _, i := range seen.Interfaces {
		taken = append(taken, networksOf(i)...)
	}
	for _, pool := range pools {
		base, err := netip.ParsePrefix(pool.Base)
		if err != nil || !base.Addr().Is4() || pool.Size < base.Bits() || pool.Size > 32 {
			continue
		}
		first := binary.BigEndian.Uint32(base.Masked().Addr().AsSlice())
		for n := range min(most, 1<<(pool.Size-base.Bits())) {
			address := binary.BigEndian.AppendUint32(nil, first+uint32(n)<<(32-pool.Size))
			subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte(address)), pool.Size)
			if !slices.ContainsFunc(taken, subnet.Overlaps) {
				free = append(free, subnet)
			}
		}
	}
	return free
}

// libvirtNetwork returns the commands that give a network of libvirt another subnet. The bridge may
// remain although libvirt is gone.
func libvirtNetwork(node *facts.Node, bridge facts.Interface) []fix.Command {
	name := fix.Name(bridge.Name)
	return []fix.Command{
		remedy.OnMachine(node, fix.On("sudo virsh net-list --all; ip addr show %s", name)).As(fix.Look),
		remedy.OnMachine(node, fix.On("sudo ip addr flush dev %s   # until libvirt starts the network again", name)),
		remedy.OnMachine(node, fix.On("sudo virsh net-edit default   # give it a subnet that is free at your site; then: sudo virsh net-destroy default && sudo virsh net-start default")).As(fix.Then),
	}
}

// dockerPools returns the commands that make Docker use subnets outside the cluster.
func dockerPools(node *facts.Node) []fix.Command {
	return []fix.Command{
		remedy.OnMachine(node, fix.On("docker network ls; cat /etc/docker/daemon.json")).As(fix.Look),
		remedy.OnMachine(node, fix.On("docker network prune --force   # removes the networks that no container uses")),
		remedy.OnMachine(node, fix.On(`echo '{"bip": "10.255.0.1/24", "default-address-pools": [{"base": "10.255.0.0/16", "size": 24}]}'   # add this to daemon.json, with a network that is free at your site; then: sudo systemctl restart docker`)).As(fix.Or),
	}
}

var Overlay = checks.Check{
	ID:       "overlay-network",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Run:      judgeOverlays,
}

func judgeOverlays(view checks.View) (findings []checks.Finding) {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	library := "NCCL_SOCKET_IFNAME"
	if !ranks.UsesNCCL(view) {
		library = "GLOO_SOCKET_IFNAME"
	}
	want := "a network of the nodes' own adapters"
	commands := []fix.Command{fix.On("ip -br addr").As(fix.Look), fix.Note("if the nodes share another network, use its names in the hostfile and its interface in %s", fix.Variable(library))}
	if name := adapter(view.Everywhere()); name != "" {
		want = name + ", which every node has"
		commands = []fix.Command{ranks.ExportLine(view.Launch, library, name)}
	}
	for _, node := range view.Nodes {
		if ranks.UsesNCCL(view) && node.IB != nil && ranks.NCCLNetwork(view, node).Obstacle == "" {
			continue // the node's data goes over RDMA
		}
		choice := nccl.RankAddress(view.Launch, node)
		if held := names.InterfaceOf(node.Net, choice.Interface); held.Kind == "tunnel" {
			findings = append(findings, checks.Finding{
				Nodes:   []string{node.Name},
				Summary: fmt.Sprintf("the ranks will send all their data through the tunnel %s", held.Name),
				Got:     fmt.Sprintf("%s, MTU %d", held.Name, held.MTU),
				Want:    want,
				Remedy:  commands,
			})
		}
	}
	return findings
}

// adapter returns the name of an interface that every node has, or "" for none. The interface is
// up, has an address, leads to other machines and is not a tunnel.
func adapter(nodes []*facts.Node) string {
	if nodes[0].Net == nil {
		return ""
	}
	for _, candidate := range nodes[0].Net.Interfaces {
		lacks := func(node *facts.Node) bool {
			i := names.InterfaceOf(node.Net, candidate.Name)
			return !i.Up || i.Internal() || i.Kind == "tunnel" || len(i.IPv4()) == 0
		}
		if !slices.ContainsFunc(nodes, lacks) {
			return candidate.Name
		}
	}
	return ""
}
