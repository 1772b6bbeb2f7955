// SPDX-License-Identifier: Apache-2.0

// Package names answers questions about the names and addresses of nodes. Which addresses does a
// node have? How does it resolve a name? What is its hostname? Which node is the first of the
// launch?
//
// The package does not resolve names itself. If a node did not look up a name, the answer is not
// known.
package names

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

// AddressesOf returns the addresses of a node that other nodes can use.
func AddressesOf(node *facts.Node) []netip.Addr {
	if node.Net == nil {
		return nil
	}
	var addresses []netip.Addr
	for _, i := range node.Net.Interfaces {
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err == nil && !prefix.Addr().IsLoopback() && !(prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast()) {
				addresses = append(addresses, prefix.Addr())
			}
		}
	}
	return addresses
}

// NetworkOf returns the network to which an address of the node belongs. known is false if the node
// is not known to have the address.
func NetworkOf(node *facts.Node, address string) (network netip.Prefix, known bool) {
	_, network, known = HolderOf(node, address)
	return network, known
}

// HolderOf returns the interface of a node that has an address, and the network of the address.
// known is false if no interface is known to have it.
func HolderOf(node *facts.Node, address string) (held *facts.Interface, network netip.Prefix, known bool) {
	if node.Net == nil {
		return nil, netip.Prefix{}, false
	}
	for i := range node.Net.Interfaces {
		for _, text := range node.Net.Interfaces[i].Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err == nil && prefix.Addr().String() == address {
				return &node.Net.Interfaces[i], prefix.Masked(), true
			}
		}
	}
	return nil, netip.Prefix{}, false
}

// AlsoHeld returns the node that also has the address at which preflight called another node, and
// the command that removes the address there. Packets to such an address lead to either machine, as
// the caller's ARP table has it. It returns nil if there is no such node. A second name of the same
// machine is not meant: that name leads to the same address, or to another network of the machine.
func AlsoHeld(view checks.View, called *facts.Node) (holder *facts.Node, takeAway fix.Command) {
	for i := range view.All {
		node := &view.All[i]
		own, err := netip.ParseAddr(node.Address)
		held, network, known := HolderOf(node, called.Address)
		if !known || err != nil || node.Address == called.Address || !network.Contains(own) {
			continue
		}
		if main, _, known := HolderOf(node, node.Address); known && main.Name == held.Name {
			prefix := fix.Number(network.Bits())
			return node, fix.On("sudo ip addr del %s/%s dev %s   # until the next boot", fix.Host(called.Address), prefix, fix.Name(held.Name)).At(node.Name)
		}
	}
	return nil, fix.Command{}
}

// InterfaceOf returns the interface of a node with a name, or the zero value if there is none.
func InterfaceOf(net *facts.Net, name string) facts.Interface {
	if net != nil {
		for _, i := range net.Interfaces {
			if i.Name == name {
				return i
			}
		}
	}
	return facts.Interface{}
}

func PeerInterface(node *facts.Node) string { return nccl.PeerAddress(node).Interface }

// LookupOf returns the result of a node's lookup of a name. The name is given without a user. asked
// is false if the node did not look up the name.
func LookupOf(node *facts.Node, name string) (lookup facts.Lookup, asked bool) {
	if node.Names != nil {
		for _, lookup := range node.Names.Lookups {
			if hostfile.Bare(lookup.Name) == name {
				return lookup, true
			}
		}
	}
	return facts.Lookup{}, false
}

// UnknownTo reports whether none of the nodes resolves a name, and why. Such a name is wrong, and
// not the nodes. It returns false if a node did not look up the name or got no answer.
func UnknownTo(nodes []*facts.Node, name string) (why string, is bool) {
	for _, node := range nodes {
		lookup, asked := LookupOf(node, name)
		if !asked || lookup.Unanswered || len(lookup.Addresses) > 0 {
			return "", false
		}
		why = lookup.Error
	}
	return why, len(nodes) > 0 && !IsAddress(name)
}

// LeadsTo reports whether any of the addresses belongs to the node: the node has the address, or
// preflight reached the node at it.
func LeadsTo(addresses []string, node *facts.Node) bool {
	right := AddressesOf(node)
	if reached, err := netip.ParseAddr(node.Address); err == nil {
		right = append(right, reached.Unmap())
	}
	return slices.ContainsFunc(addresses, func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && slices.Contains(right, address.Unmap())
	})
}

// MostlyLedTo returns the addresses to which more than half of the nodes resolve a name, or nil if
// there is no such majority. It ignores loopback addresses.
func MostlyLedTo(nodes []*facts.Node, resolved func(*facts.Node) []string) []string {
	count, total := map[string]int{}, 0
	for _, node := range nodes {
		addresses := resolved(node)
		if len(addresses) == 0 || IsLoopback(addresses[0]) {
			continue
		}
		total++
		for _, address := range slices.Compact(slices.Sorted(slices.Values(addresses))) {
			count[address]++
		}
	}
	var most []string
	for _, address := range slices.Sorted(maps.Keys(count)) {
		if 2*count[address] > total {
			most = append(most, address)
		}
	}
	return most
}

// LookUp returns the command that shows where a node gets the address of a name from.
func LookUp(name string) fix.Command {
	return fix.On("grep -nw %s /etc/hosts; getent ahosts %[1]s", fix.Host(name)).As(fix.Look)
}

func Overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(address string) bool { return slices.Contains(b, address) })
}

func IsLoopback(address string) bool {
	first, _, _ := strings.Cut(address, " ")
	ip, err := netip.ParseAddr(first)
	return err == nil && ip.IsLoopback() || address == "localhost"
}

func SplitEndpoint(endpoint string) (host, port string) {
	at := strings.LastIndexByte(endpoint, ':')
	if at < 0 {
		return endpoint, ""
	}
	return strings.Trim(endpoint[:at], "[]"), endpoint[at+1:]
}

// Unresolved returns torch's message about a host whose name does not resolve.
func Unresolved(host string, port any) string {
	return fmt.Sprintf("The IPv4 network addresses of (%s, %v) cannot be retrieved (gai error: -2 - Name or service not known).", host, port)
}

// FirstHost returns the name of the node that will run rank 0.
func FirstHost(v checks.View) string {
	if len(v.Launch.Hosts) > 0 {
		return v.Launch.Hosts[0].Name
	}
	if len(v.All) > 0 {
		return v.All[0].Name
	}
	return ""
}

// First returns the first node for which is returns true, or nil if there is none.
func First(nodes []*facts.Node, is func(*facts.Node) bool) *facts.Node {
	if at := slices.IndexFunc(nodes, is); at >= 0 {
		return nodes[at]
	}
	return nil
}

// NodeZero returns the node of rank 0. If it cannot, it returns the findings for a check that needs
// this node. The check is skipped if the node lacks a needed section, because another finding
// reports that. The check is unknown if the node is not part of the fleet.
func NodeZero(view checks.View) (*facts.Node, []checks.Finding) {
	first := FirstHost(view)
	isFirst := func(n *facts.Node) bool { return n.Name == first }
	if node := First(view.Nodes, isFirst); node != nil {
		return node, nil
	}
	if slices.ContainsFunc(view.Everywhere(), isFirst) {
		return nil, checks.Skipped("node 0 (" + first + ") was not checked")
	}
	return nil, []checks.Finding{{Verdict: checks.Unknown, Nodes: []string{first}, Summary: "node 0 of the launch is not among the checked nodes"}}
}

// Unanswered returns an unknown that lists the names for which a node got no answer, with the
// reasons. Such names may still resolve, so they count neither as resolved nor as missing.
func Unanswered(node *facts.Node) []checks.Finding {
	var asked, whys []string
	isOwn := false
	byWhy := map[string][]string{}
	for _, lookup := range node.Names.Lookups {
		if !lookup.Unanswered {
			continue
		}
		name, why := hostfile.Bare(lookup.Name), cmp.Or(lookup.Error, "no answer in time")
		if byWhy[why] == nil {
			whys = append(whys, why)
		}
		asked, byWhy[why] = append(asked, name), append(byWhy[why], name)
		isOwn = isOwn || name == node.Names.Own
	}
	if asked == nil {
		return nil
	}
	parts := text.Map(whys, func(why string) string { return hostfile.Fold(byWhy[why]) + ": " + why })
	f := checks.UnknownFor(node, "names: lookups without an answer: "+strings.Join(parts, "; "))
	f.Remedy = []fix.Command{fix.On("time getent ahosts %s; cat /etc/resolv.conf", fix.Host(asked[0])).As(fix.Look)}
	if slices.Equal(whys, []string{facts.OutOfTime}) {
		f.Remedy = []fix.Command{fix.Note("give the run more time with --timeout")}
		return []checks.Finding{f}
	}
	if isOwn {
		if listed := hostfile.Bare(node.Name); listed != node.Names.Own && !IsAddress(listed) {
			f.Remedy = append(f.Remedy, fix.On("sudo hostnamectl set-hostname %s   # if the present hostname is wrong", fix.Host(listed)).As(fix.Or))
		}
		f.Remedy = append(f.Remedy, nameInHosts(node))
	}
	ReadHosts(node, true, asked[0], &f)
	return []checks.Finding{f}
}

// IsAddress reports whether a host is given by its address and not by a name.
func IsAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Correct returns the command that makes a name lead to an address in /etc/hosts. If one of them is
// not plain, it returns the command that shows where the answer comes from. The command overwrites
// the file in place. In a container the file is a mount, which sed -i cannot replace.
func Correct(name, address string) fix.Command {
	if !text.IsPlain(name) || !text.IsPlain(address) || strings.Contains(name, "/") {
		return LookUp(name)
	}
	return fix.On(`hosts=$(sed -E "s/[[:space:]]%s([[:space:]]|$)/ /" /etc/hosts; echo %s %s); echo "$hosts" | sudo tee /etc/hosts; getent ahosts %[3]s`, fix.Pattern(name), fix.Host(address), fix.Host(name))
}

// nameInHosts returns the command that adds the node's own name to its /etc/hosts. No name service
// is then needed for this name.
func nameInHosts(node *facts.Node) fix.Command {
	return fix.On(`echo "%s $(hostname)" | sudo tee -a /etc/hosts`, ownAddress(node))
}

// SplitName returns a finding for a name that nodes resolve to different addresses, if none of the
// addresses has a majority.
func SplitName(name string, groups []compare.Group) checks.Finding {
	f := checks.Finding{
		Summary: "nodes resolve " + name + " to different addresses, and none has a majority",
		Want:    "the same address on every node",
		Remedy:  []fix.Command{LookUp(name), fix.Note("correct the name in DNS, or in /etc/hosts of the nodes that are wrong")},
	}
	var parts []string
	for _, g := range groups {
		f.Nodes = append(f.Nodes, g.Nodes...)
		parts = append(parts, g.Value+" on "+hostfile.Fold(g.Nodes))
	}
	f.Got = strings.Join(parts, "; ")
	return f
}

// Own checks the address to which a node resolves its own hostname. If no interface name is set,
// gloo uses the first such address that it can bind to and sends this address to its peers. Every
// torchrun with a c10d rendezvous also resolves the hostname.
// Source: pytorch/pytorch 2.5, ProcessGroupGloo.cpp, createDefaultDevice, and
// elastic/rendezvous/utils.py, _matches_machine_hostname.
func Own(view checks.View, node *facts.Node) []checks.Finding {
	own := node.Names.Own
	if len(view.All) == 1 {
		return nil // there is no peer to which the ranks must connect
	}
	f := checks.Finding{
		Verdict: checks.Warn,
		Nodes:   []string{node.Name},
		Want:    "an address that the other nodes can reach",
	}
	for _, lookup := range node.Names.Lookups {
		switch {
		case lookup.Unanswered || lookup.Name != own && lookup.Name != node.Name:
			continue
		case own != "" && strings.Trim(own, "0123456789") == "":
			f.Summary = "the hostname is all digits, which resolvers read as an address"
			f.Got = own
			f.Want = "a hostname with at least one letter"
			f.WouldSee = "The client socket has failed to connect to 0.…, if torchrun or an elastic launch passes the name on"
			f.Remedy = []fix.Command{fix.On("sudo hostnamectl set-hostname node%s", fix.Name(own))}
			return []checks.Finding{f}
		case len(lookup.Addresses) > 0 && IsLoopback(lookup.Addresses[0]):
			f.Summary = "the node's own name resolves to a loopback address"
			f.Got = lookup.Addresses[0]
			f.Remedy = []fix.Command{
				fix.On("getent ahosts $(hostname); grep -nw $(hostname) /etc/hosts").As(fix.Look),
				fix.On(`hosts=$(sed -E "s/[[:space:]]$(hostname)([[:space:]]|$)/ /" /etc/hosts; echo "%s $(hostname)"); echo "$hosts" | sudo tee /etc/hosts`, ownAddress(node)),
			}
			if f.Got == "127.0.1.1" {
				f.Remedy = []fix.Command{fix.On(`sudo sed -i "s/^127\.0\.1\.1[[:space:]].*/%s $(hostname)/" /etc/hosts`, ownAddress(node))}
			}
		case len(lookup.Addresses) == 0 && lookup.Name == own:
			f.Summary = "the node's own hostname does not resolve"
			f.Got = lookup.Error
			f.Remedy = []fix.Command{nameInHosts(node)}
			ReadHosts(node, false, own, &f)
		default:
			continue
		}
		f.Verdict, f.WouldSee = ofOwn(view, node, lookup)
		return []checks.Finding{f}
	}
	return nil
}

// LooksUpOwn reports whether the ranks of a node, or the torchrun that starts them, resolve the
// node's own hostname.
func LooksUpOwn(view checks.View, node *facts.Node) bool {
	byGloo := ranks.UsesGloo(view) && (node.Env == nil || ranks.Env(view, node).Get("GLOO_SOCKET_IFNAME").Value == "")
	return byGloo || view.Launch.Rendezvous == launch.RendezvousC10d
}

// ofOwn returns the verdict for a node whose own name does not resolve, or resolves to a loopback
// address. It also returns what happens to the ranks on that node.
func ofOwn(view checks.View, node *facts.Node, lookup facts.Lookup) (checks.Verdict, string) {
	calling := ranks.GlooMesh(view).Caller(node)
	const refused = "Gloo connectFullMesh failed with … timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]"
	switch {
	case len(lookup.Addresses) == 0 && view.Launch.Rendezvous == launch.RendezvousC10d:
		return checks.Fail, "socket.gaierror: [Errno -2] Name or service not known, of torchrun on this node"
	case hidesHost(view, node):
		return checks.Fail, "The client socket has timed out after 60000ms while trying to connect to the endpoint, on every node: no process serves it"
	case ranks.Env(view, node).Get("GLOO_SOCKET_IFNAME").Value != "":
		return checks.Warn, "nothing: GLOO_SOCKET_IFNAME names the interface for gloo"
	case !ranks.UsesGloo(view) && calling == nil:
		return checks.Warn, "nothing with NCCL, nor with gloo, " + ranks.ByOrder
	case !ranks.UsesGloo(view):
		return checks.Warn, "nothing with NCCL; if the script creates a gloo group, " + refused
	case calling == nil:
		return checks.Warn, "nothing, " + ranks.ByOrder
	case node.Env == nil:
		return checks.Warn, "if GLOO_SOCKET_IFNAME is not set, " + refused
	}
	return checks.Fail, refused
}

// hidesHost reports whether the node has the address of torchrun's endpoint although torchrun does
// not recognise the node by its name. No process then serves the store.
func hidesHost(view checks.View, node *facts.Node) bool {
	if view.Launch.Rendezvous != launch.RendezvousC10d || node.Net == nil {
		return false
	}
	meeting := view.Launch.Endpoint(node)
	serves, _ := view.Launch.Serves(meeting, node, node)
	return !serves && slices.ContainsFunc(AddressesOf(node), func(a netip.Addr) bool { return a.String() == meeting.Host })
}

// ownAddress returns a shell expression for the address to which the node's own name should
// resolve. It is the first address of hostname -I, unless another address leads to the peers.
func ownAddress(node *facts.Node) fix.Arg {
	if node.Net != nil {
		printed := launch.Prediction{}.Endpoint(&facts.Node{Facts: facts.Facts{Net: node.Net}}).Host
		if address := nccl.PeerAddress(node).Address; address != printed && text.IsPlain(address) {
			return fix.Host(address)
		}
	}
	return fix.Code(`$(hostname -I | cut -d" " -f1)`)
}

// readsHosts lists the sources of nsswitch.conf that read /etc/hosts. systemd-resolved reads the
// file by default (resolved.conf(5), ReadEtcHosts).
var readsHosts = []string{"files", "resolve"}

// local lists the beginnings of the names of sources that answer only for some names, without a
// name server: for the machine itself and for names below .local.
var local = []string{"myhostname", "mdns"}

// HidesHosts reports whether the hosts line of a node's nsswitch.conf keeps lookups from /etc/hosts.
// A line in that file then repairs nothing. If first is false, the file may be read after a source
// that does not know the name. If first is true, the file must be read before any name server.
func HidesHosts(node *facts.Node, first bool) bool {
	if node == nil || node.Names == nil || node.Names.Resolver == "" {
		return false
	}
	for word := range strings.FieldsSeq(strings.ReplaceAll(node.Names.Resolver, "[", " [")) {
		switch action, isAction := strings.CutPrefix(word, "["); {
		case slices.Contains(readsHosts, word):
			return false
		case slices.ContainsFunc(local, func(name string) bool { return strings.HasPrefix(word, name) }):
		case isAction && endsLookup(action), !isAction && first:
			return true
		}
	}
	return true
}

// endsLookup reports whether an action of nsswitch.conf, without its opening bracket, ends the
// lookup of a name that the source before it does not know.
func endsLookup(action string) bool {
	action = strings.ToUpper(action)
	return strings.Contains(action, "RETURN") && (strings.HasPrefix(action, "NOTFOUND") || strings.HasPrefix(action, "!") && !strings.HasPrefix(action, "!NOTFOUND"))
}

// ReadHosts changes a finding about names that a node resolves wrongly, not at all, or slowly, if
// the order of the node's sources is the cause. It then replaces the commands that write to
// /etc/hosts.
func ReadHosts(node *facts.Node, first bool, name string, f *checks.Finding) {
	if !HidesHosts(node, first) {
		return
	}
	f.Got = strings.TrimPrefix(fmt.Sprintf("%s; /etc/nsswitch.conf has \"hosts: %s\"", f.Got, node.Names.Resolver), "; ")
	f.Remedy = []fix.Command{
		fix.On(`sudo sed -i -E '/^hosts:/{s/[[:space:]]files([[:space:]]|$)/ /;s/^hosts:/hosts: files/}' /etc/nsswitch.conf`).Inside().Remark("makes lookups read /etc/hosts first"),
		LookUp(name).As(fix.Look),
	}
}
