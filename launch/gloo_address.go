package launch

import (
	"fmt"
	"net/netip"
	"strings"

	"preflight/facts"
)

// Gloo is the address that gloo's first device will use on the node. Every name
// of GLOO_SOCKET_IFNAME must be an interface that holds an address; whether it
// is up does not matter. Without the variable the node's own name decides.
//
// Source: pytorch/pytorch 2.7, ProcessGroupGloo.cpp, Options::create_default;
// facebookincubator/gloo, transport/tcp/device.cc, lookupAddrForIface.
func Gloo(p Prediction, node *facts.Node) Choice {
	if node.Net == nil {
		return unseenNet
	}
	given, set := RankEnv(node.Env, p.Exports)["GLOO_SOCKET_IFNAME"]
	if !set || len(given.Value) < 2 {
		return ownName(node)
	}
	var first Choice
	for _, name := range strings.Split(strings.TrimSuffix(given.Value, ","), ",") {
		choice, found := firstAddress(node, name)
		switch {
		case name == "":
			return Choice{Error: "makeTCPDevice(): interface or hostname can't be empty"}
		case !found:
			return Choice{Error: "Unable to find address for: " + name}
		case first == Choice{}:
			first = choice
			first.Rule = cite(p, given)
		}
	}
	return first
}

// firstAddress is the first address of the interface with exactly this name.
func firstAddress(node *facts.Node, name string) (choice Choice, found bool) {
	for _, h := range getifaddrs(node) {
		if h.Name == name {
			return choiceOf(h, ""), true
		}
	}
	return Choice{}, false
}

// ownName is the first address of the node's own hostname that can be bound
// there. A loopback address can, and is taken silently: that is what
// Debian's line "127.0.1.1 hostname" does.
//
// Source: pytorch/pytorch 2.7, ProcessGroupGloo.cpp, createDefaultDevice.
func ownName(node *facts.Node) Choice {
	if node.Names == nil {
		return Choice{Rule: "not known: how the node resolves its own name was not seen"}
	}
	own := node.Names.Own
	addresses, known := lookedUp(node.Names, own)
	if !known {
		return Choice{Rule: fmt.Sprintf("not known: what its own name %s resolves to was not seen", own)}
	}
	held := getifaddrs(node)
	for _, address := range addresses {
		rule := fmt.Sprintf("its own name %s resolves to it", own)
		if i, found := holder(held, address); found {
			return Choice{Interface: i.Name, Address: address.WithZone("").String(), Rule: rule}
		}
		if address.Is4() && address.IsLoopback() { // all of 127.0.0.0/8 can be bound
			return Choice{Interface: loopbackName(node.Net), Address: address.String(), Rule: rule}
		}
	}
	return fallback(node.Net, fmt.Sprintf("its own name %s resolves to no address of the node, and gloo falls back to the loopback", own))
}

func fallback(net *facts.Net, rule string) Choice {
	return Choice{Interface: loopbackName(net), Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}).String(), Rule: rule}
}

func loopbackName(net *facts.Net) string {
	for _, i := range net.Interfaces {
		if i.Loopback {
			return i.Name
		}
	}
	return ""
}
