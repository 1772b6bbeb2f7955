package names

import (
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// Own judges what a node's own hostname leads to: gloo without an
// interface name takes its first bindable address and advertises it, and
// torchrun recognises the rendezvous host by it.
// Source: pytorch/pytorch 2.5, ProcessGroupGloo.cpp, createDefaultDevice, and
// elastic/rendezvous/utils.py, _matches_machine_hostname.
func Own(view checks.View, node *facts.Node) []checks.Finding {
	own := node.Names.Own
	if len(view.All) == 1 {
		return nil // nobody to advertise to
	}
	f := checks.Finding{
		Verdict:  checks.Warn,
		Nodes:    []string{node.Name},
		Want:     "an address the other nodes can reach",
		WouldSee: "nothing with NCCL and DeepSpeed's own launcher; with gloo or torchrun: Connection refused, remote=[127.0.1.1]",
		Remedy:   []fix.Command{fix.On("getent ahosts $(hostname); grep -nw $(hostname) /etc/hosts"), fix.On("sudoedit /etc/hosts")},
	}
	isOwn := func(n facts.Node) bool { return n.Name == own }
	for _, lookup := range node.Names.Lookups {
		switch {
		case lookup.Unanswered || lookup.Name != own && lookup.Name != node.Name:
			continue
		case own != "" && strings.Trim(own, "0123456789") == "":
			f.Summary = "the hostname is all digits, which resolvers read as an address"
			f.Got = own
			f.WouldSee = "The client socket has failed to connect to 0.…, wherever torchrun or an elastic launch hands the name on"
			f.Remedy = []fix.Command{fix.On("sudo hostnamectl set-hostname node%s", fix.Name(own))}
			return []checks.Finding{f}
		case len(lookup.Addresses) > 0 && IsLoopback(lookup.Addresses[0]):
			f.Summary = "its own name leads to a loopback address"
			f.Got = lookup.Addresses[0]
			if f.Got == "127.0.1.1" {
				f.Remedy = []fix.Command{fix.On(`sudo sed -i "s/^127\.0\.1\.1[[:space:]].*/%s $(hostname)/" /etc/hosts`, ownAddress(node))}
			}
		case len(lookup.Addresses) == 0 && lookup.Name == own && !slices.ContainsFunc(view.All, isOwn):
			f.Summary = "its own hostname does not resolve"
			f.Got = lookup.Error
			f.Remedy = []fix.Command{fix.On(`echo "%s $(hostname)" | sudo tee -a /etc/hosts`, ownAddress(node))}
		default:
			continue
		}
		if view.Launch.Accelerator == "cpu" && node.Env != nil && ranks.Env(view, node)["GLOO_SOCKET_IFNAME"].Value == "" {
			f.Verdict = checks.Fail
			f.WouldSee = "Gloo connectFullMesh failed with … timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]"
		}
		if hidesHost(view, node) {
			f.Verdict = checks.Fail
			f.WouldSee = "The client socket has timed out after 60000ms while trying to connect to the endpoint, on every node: nobody serves it"
		}
		return []checks.Finding{f}
	}
	return nil
}

// hidesHost is whether the node holds the address of torchrun's endpoint and
// does not know it by its name, so that nobody serves the store.
func hidesHost(view checks.View, node *facts.Node) bool {
	if view.Launch.Rendezvous != launch.RendezvousC10d || node.Net == nil {
		return false
	}
	meeting := view.Launch.Endpoint(node)
	serves, _ := view.Launch.Serves(meeting, node, node)
	return !serves && slices.ContainsFunc(AddressesOf(node), func(a netip.Addr) bool { return a.String() == meeting.Host })
}

// ownAddress is what the node's name should lead to, for a shell on it. That is
// the first address that hostname -I prints, but where another leads to the peers.
func ownAddress(node *facts.Node) fix.Arg {
	if node.Net != nil {
		printed := launch.Prediction{}.Endpoint(&facts.Node{Facts: facts.Facts{Net: node.Net}}).Host
		if address := nccl.PeerAddress(node).Address; address != printed && fix.IsPlain(address) {
			return fix.Host(address)
		}
	}
	return fix.Code(`$(hostname -I | cut -d" " -f1)`)
}
