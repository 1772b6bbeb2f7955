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

// Choice is the interface and address that a library will take on one node.
// Where neither Address nor Error is set the choice is not known, because what
// it hangs on was not seen; Rule says what.
type Choice struct {
	Interface string // "" when the rule names an address of no known interface
	Address   string // an IP address without a prefix length
	Rule      string // why this one, for a person: "NCCL_SOCKET_IFNAME=eth0 from /etc/nccl.conf"
	Error     string // what the library will die with where it can choose nothing, else ""
}

// RankAddress is where the ranks of the node will listen for the others: NCCL's
// choice, or gloo's where a slot is a process.
func RankAddress(p launch.Prediction, node *facts.Node) Choice {
	if p.Accelerator == "cpu" {
		return Gloo(p, node)
	}
	return Bootstrap(p, node)
}

// unseenNet is the choice of whoever chooses among interfaces that nobody saw.
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

// cite is a setting with the place where its author would look for it.
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

// Bootstrap is the interface that NCCL's bootstrap will use on the node: exactly one,
// in the subnet of NCCL_COMM_ID where that is set, else the first that NET/Socket
// would use.
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

// Sockets are the interfaces that NCCL's NET/Socket will use on the node
// where it uses sockets at all, as its devices are numbered: at most 16, and
// without NCCL_COMM_ID bootstrap's first. Where it finds none the only entry has
// an Error.
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

// Candidates are the interfaces that NCCL_SOCKET_IFNAME selects from on the
// node, in the kernel's order, each with the address that NCCL would take there.
func Candidates(p launch.Prediction, node *facts.Node) []Choice {
	if node.Net == nil {
		return nil
	}
	return newSearch(p, node).candidates
}

// search is one node as NCCL sees it when it looks for interfaces.
type search struct {
	node       *facts.Node
	held       []launch.HeldAddress
	version    string // of NCCL, "" for the newest
	env        launch.Env
	candidates []Choice
}

func newSearch(p launch.Prediction, node *facts.Node) search {
	s := search{node: node, held: launch.HeldAddresses(node), version: Version(node), env: launch.RankEnv(node.Env, p.Exports)}
	s.candidates = s.eligible()
	return s
}

// eligible leaves out what NCCL never takes: interfaces without a carrier
// since 2.28.3, the family that NCCL_SOCKET_FAMILY did not ask for, ::1. An
// interface comes once, with its first address. IPv6 link-local addresses are
// not left out, although nobody can connect to one.
//
// Source: NVIDIA/nccl, misc/socket.cc, findInterfaces, 2.4.2 to 2.27.7;
// os/linux.cc, ncclOsFindInterfaces, 2.28.3 to 2.30.7.
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

// find is what NCCL's search takes, at most 16 interfaces: what
// NCCL_SOCKET_IFNAME selects and nothing else where that is set, else what the
// first of its defaults finds that finds anything.
//
// Source: NVIDIA/nccl, misc/socket.cc, ncclFindInterfaces: the order since 2.4.2,
// virbr a default of its own since 2.28.3.
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

// inSubnetOf is the first address in the subnet of NCCL_COMM_ID, a link-local
// one only where the id names its interface. What else decides about interfaces
// does not count here, a carrier no more than a name.
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

// commID reads NCCL_COMM_ID, "10.0.0.1:4000", "[fd00::1]:4000" or "w1:4000". A
// name leads to the first address it has on the node.
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

// ringFailure is what ends NCCL where its ring of ranks is to be built over
// NET/Socket's devices and NCCL_OOB_NET_IFNAME selects none of them. Over other
// networks the names are those of adapters, and a plugin's own.
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

// PeerAddress is the interface and address that lead to the peers: the address
// the node was reached at, where one of its interfaces holds it. Behind a
// translated address, or on the launching machine itself, it is the interface
// that its routes to the peers leave by, where they agree, with the address they
// leave from. Address is "" where neither tells.
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
			way.Source = "" // the interface's own first address will do
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
