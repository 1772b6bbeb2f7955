// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// Choice is the interface and address that a library will use on a node. If both Address and Error
// are empty, the choice is unknown because a fact is missing; Rule says which.
type Choice struct {
	Interface string // "" if the address belongs to no known interface
	Address   string // an IP address without the prefix length
	Rule      string // why the library chooses it, as text for people: "NCCL_SOCKET_IFNAME=eth0 from /etc/nccl.conf"
	Error     string // the library's error if it finds no usable interface, otherwise ""
}

// RankAddress returns the address on which the node's ranks will listen for the other ranks: NCCL's
// choice, or gloo's choice if a slot is a process.
func RankAddress(p launch.Prediction, node *facts.Node) Choice {
	if p.Accelerator == "cpu" {
		return Gloo(p, node)
	}
	return Bootstrap(p, node)
}

// unseenNet is the choice if the node did not report its interfaces.
var unseenNet = Choice{Rule: "not known: the node's interfaces were not seen"}

func choiceOf(a launch.HeldAddress, rule string) Choice {
	return Choice{Interface: a.Name, Address: a.Addr().String(), Rule: rule}
}

func holder(held []launch.HeldAddress, address netip.Addr) (*facts.Interface, bool) {
	address = address.Unmap().WithZone("")
	at := slices.IndexFunc(held, func(h launch.HeldAddress) bool { return h.Addr() == address })
	if at < 0 {
		return nil, false
	}
	return held[at].Interface, true
}

// cite returns a setting with the place where it was set.
func cite(env launch.Env, setting facts.Setting) string {
	from := setting.Source
	exported := env.Exports(setting.Name)
	switch {
	case from == "environment" && exported:
		from = "the launching machine's environment"
	case from == "environment":
		from = "the ssh session's environment"
	}
	return fmt.Sprintf("%s=%s from %s", setting.Name, setting.Value, from)
}

// Bootstrap returns the single interface that NCCL's bootstrap will use on the node. It is in the
// subnet of NCCL_COMM_ID if that is set, otherwise it is the first interface of NET/Socket.
//
// Source: NVIDIA/nccl 2.30.7, bootstrap.cc, bootstrapNetInit and netGetDevice.
func Bootstrap(p launch.Prediction, node *facts.Node) Choice {
	if node.Net == nil {
		return unseenNet
	}
	s := newSearch(p, node)
	choice := Choice{Error: "Bootstrap : no socket interface found"}
	if id, set := s.env.Lookup("NCCL_COMM_ID"); set {
		choice = s.inSubnetOf(id)
	} else if found := s.find(); len(found) > 0 {
		choice = found[0]
	}
	if failure := s.ringFailure(); failure != "" {
		return Choice{Error: failure}
	}
	return choice
}

// Sockets returns the interfaces that NCCL's NET/Socket will use on the node if NCCL uses sockets,
// in the order of NCCL's devices. There are at most 16. Without NCCL_COMM_ID, the first one is the
// interface of the bootstrap. If there are none, the only entry has an Error.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_socket.cc, ncclNetSocketInit.
func Sockets(p launch.Prediction, node *facts.Node) []Choice {
	if node.Net == nil {
		return []Choice{unseenNet}
	}
	if found := newSearch(p, node).find(); len(found) > 0 {
		return found
	}
	return []Choice{{Error: "NET/Socket : no interface found"}}
}

// Candidates returns the interfaces from which NCCL_SOCKET_IFNAME selects on the node, in the
// kernel's order, each with the address that NCCL would use.
func Candidates(p launch.Prediction, node *facts.Node) []Choice {
	if node.Net == nil {
		return nil
	}
	return newSearch(p, node).candidates
}

// search holds what NCCL sees of a node when it looks for interfaces.
type search struct {
	node       *facts.Node
	held       []launch.HeldAddress
	version    string // NCCL's version, "" for the newest
	env        launch.Env
	candidates []Choice
}

func newSearch(p launch.Prediction, node *facts.Node) search {
	s := search{node: node, held: launch.HeldAddresses(node), version: Version(node), env: launch.RankEnv(node.Env, p.Exports)}
	s.candidates = s.eligible()
	return s
}

// eligible returns the interfaces that NCCL may use. It excludes interfaces without a carrier
// (since 2.28.3), addresses of the family that NCCL_SOCKET_FAMILY does not select, and ::1. Each
// interface appears once, with its first address. IPv6 link-local addresses are included, although
// nothing can connect to them.
//
// Source: NVIDIA/nccl, misc/socket.cc, findInterfaces, 2.4.2 to 2.27.7; os/linux.cc,
// ncclOsFindInterfaces, 2.28.3 to 2.30.7.
func (s search) eligible() []Choice {
	family := s.env.Get("NCCL_SOCKET_FAMILY").Value
	wantsCarrier := !hostfile.Before(s.version, "2.28.3")
	var found []Choice
	for _, h := range s.held {
		isOther := family == "AF_INET" && !h.Addr().Is4() || family == "AF_INET6" && h.Addr().Is4()
		isListed := slices.ContainsFunc(found, func(c Choice) bool { return c.Interface == h.Name })
		if isOther || isListed || wantsCarrier && !h.Running || h.Addr() == netip.IPv6Loopback() {
			continue
		}
		found = append(found, choiceOf(h, ""))
	}
	return found
}

// find returns the interfaces that NCCL's search finds, at most 16. If NCCL_SOCKET_IFNAME is set,
// it selects the interfaces. Otherwise the first default rule that finds any interface selects
// them.
//
// Source: NVIDIA/nccl, misc/socket.cc, ncclFindInterfaces: the order since 2.4.2, virbr as a
// separate default since 2.28.3.
func (s search) find() []Choice {
	if given, set := s.env.Lookup("NCCL_SOCKET_IFNAME"); set {
		if found, chosen := s.matching(given.Value, cite(s.env, given)); chosen {
			return found[:min(maxIfs, len(found))]
		}
	}
	const only = "NCCL's default: there is only "
	found, _ := s.matching("ib", "NCCL's default: interfaces named ib… come first")
	if id, set := s.env.Lookup("NCCL_COMM_ID"); set && len(found) == 0 {
		if choice := s.inSubnetOf(id); choice.Address != "" {
			return []Choice{choice}
		}
	}
	others, last := "^docker,lo,virbr", []string{"docker", "lo", "virbr"}
	if hostfile.Before(s.version, "2.28.3") {
		others, last = "^docker,lo", []string{"docker", "lo"}
	}
	if len(found) == 0 {
		found, _ = s.matching(others, "NCCL's default: all but "+strings.ReplaceAll(others[1:], ",", "…, ")+"…")
	}
	for _, prefix := range last {
		if len(found) == 0 {
			found, _ = s.matching(prefix, only+prefix+"…")
		}
	}
	return found[:min(maxIfs, len(found))]
}

func (s search) matching(spec, rule string) (found []Choice, chosen bool) {
	filter := parseNameFilter(spec, maxIfs)
	for _, c := range s.candidates {
		if len(spec) >= leastIfname && filter.selects(Device{Name: c.Interface}) {
			c.Rule = rule
			found = append(found, c)
		}
	}
	return found, len(spec) >= leastIfname
}

// inSubnetOf returns the first address in the subnet of NCCL_COMM_ID. It returns a link-local
// address only if the ID names the address's interface. Here NCCL ignores all other rules, such as
// those for carrier and name.
//
// Source: NVIDIA/nccl 2.30.7, os/linux.cc, ncclFindInterfaceMatchSubnet.
func (s search) inSubnetOf(id facts.Setting) Choice {
	remote, problem := s.commID(id)
	if problem != (Choice{}) {
		return problem
	}
	for _, h := range s.held {
		scope := ""
		if h.Addr().Is6() && h.Addr().IsLinkLocalUnicast() {
			scope = h.Name
		}
		if h.Contains(remote.WithZone("")) && scope == remote.Zone() {
			return choiceOf(h, "in the subnet of "+cite(s.env, id))
		}
	}
	return Choice{Error: "NET/Socket : No usable listening interface found"}
}

// commID parses NCCL_COMM_ID: "10.0.0.1:4000", "[fd00::1]:4000" or "w1:4000". A name stands for the
// first address to which the name resolves on the node.
//
// Source: NVIDIA/nccl 2.30.7, misc/socket.cc, ncclSocketGetAddrFromString.
func (s search) commID(id facts.Setting) (address netip.Addr, problem Choice) {
	invalid := Choice{Error: "Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or [<ipv6>]:<port> or <hostname>:<port>"}
	if bracketed, isIPv6 := strings.CutPrefix(id.Value, "["); isIPv6 {
		text, _, closed := strings.Cut(bracketed, "]")
		address, err := netip.ParseAddr(text)
		if !closed || err != nil {
			return netip.Addr{}, invalid
		}
		return address, Choice{}
	}
	first, _, _ := strings.Cut(strings.TrimLeft(id.Value, ","), ",")
	host, _, _ := strings.Cut(first, ":")
	if len(id.Value) < 2 || host == "" {
		return netip.Addr{}, invalid
	}
	addresses, asked := launch.LookedUp(s.node.Names, host)
	if !asked {
		return netip.Addr{}, Choice{Rule: fmt.Sprintf("not known: what %s of NCCL_COMM_ID resolves to was not seen", host)}
	}
	if len(addresses) == 0 {
		return netip.Addr{}, invalid
	}
	return addresses[0], Choice{}
}

// ringFailure returns NCCL's error if its ring of ranks uses NET/Socket's devices and
// NCCL_OOB_NET_IFNAME selects none of them, otherwise "". If the ring uses another network,
// NCCL_OOB_NET_IFNAME has names of adapters or of a plugin's devices.
//
// Source: NVIDIA/nccl, bootstrap.cc, netGetDevice, 2.23.4 to 2.30.7.
func (s search) ringFailure() string {
	enabled, _ := Number(s.env.Get("NCCL_OOB_NET_ENABLE").Value)
	spec := s.env.Get("NCCL_OOB_NET_IFNAME").Value
	if enabled == 0 || spec == "" || !strings.EqualFold(s.env.Get("NCCL_NET").Value, "Socket") || hostfile.Before(s.version, "2.23") {
		return ""
	}
	filter := parseNameFilter(spec, maxIfs)
	if slices.ContainsFunc(s.find(), func(c Choice) bool { return filter.selects(Device{Name: c.Interface}) }) {
		return ""
	}
	return fmt.Sprintf("no device found matching %s, verify NCCL_OOB_NET_IFNAME", spec)
}

// PeerAddress returns the interface and address that lead to the other nodes. That is the address
// at which the node was reached, if one of its interfaces has that address. Otherwise the node is
// behind address translation or is the launching machine. PeerAddress then returns the interface
// and source address of the routes to the other nodes, if these routes agree. Address is "" if
// neither is known.
func PeerAddress(node *facts.Node) Choice {
	if node.Net == nil {
		return unseenNet
	}
	held := launch.HeldAddresses(node)
	if reached, err := netip.ParseAddr(node.Address); err == nil {
		if i, found := holder(held, reached); found && !i.Loopback {
			return Choice{Interface: i.Name, Address: reached.Unmap().WithZone("").String(), Rule: "the address at which preflight reached it"}
		}
	}
	var way facts.Route
	for _, route := range node.Net.Routes {
		switch {
		case route.Interface == "" || isLoopback(node.Net, route.Interface):
		case way.Interface == "":
			way = route
		case route.Interface != way.Interface:
			return Choice{Rule: "not known: its routes to the peers use several interfaces, and none has the address at which preflight reached it"}
		case route.Source != way.Source:
			way.Source = "" // the interface's own first address is used
		}
	}
	if way.Interface == "" {
		return Choice{Rule: "not known: no interface has the address at which preflight reached it, and no route to a peer names an interface"}
	}
	const rule = "its routes to the peers use this interface"
	if source, err := netip.ParseAddr(way.Source); err == nil {
		return Choice{Interface: way.Interface, Address: source.String(), Rule: rule}
	}
	for _, h := range held {
		if h.Name == way.Interface {
			return choiceOf(h, rule)
		}
	}
	return Choice{Interface: way.Interface, Rule: "not known: the interface of its routes to the peers has no address"}
}

func isLoopback(net *facts.Net, name string) bool {
	return slices.ContainsFunc(net.Interfaces, func(i facts.Interface) bool { return i.Name == name && i.Loopback })
}
