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
func RankAddress(p Prediction, node *facts.Node) Choice {
	if p.Accelerator == "cpu" {
		return Gloo(p, node)
	}
	return Bootstrap(p, node)
}

// unseenNet is the choice of whoever chooses among interfaces that nobody saw.
var unseenNet = Choice{Rule: "not known: the node's interfaces were not seen"}

// heldAddress is one address and the interface that holds it.
type heldAddress struct {
	*facts.Interface
	netip.Prefix
}

func choiceOf(a heldAddress, rule string) Choice {
	return Choice{Interface: a.Name, Address: a.Addr().String(), Rule: rule}
}

// getifaddrs lists the addresses of a node in the order in which the C library
// hands them out: all IPv4 addresses, interface by interface, then all IPv6 ones,
// within an interface as they were added. NCCL, gloo, tensorpipe and hostname all
// walk this list and take the first that suits them.
//
// Source: glibc, sysdeps/unix/sysv/linux/ifaddrs.c, which keeps the order of
// the kernel's dump; seen with glibc 2.36 on Linux 6.18.
func getifaddrs(node *facts.Node) []heldAddress {
	interfaces := inKernelOrder(node)
	held := make([]heldAddress, 0, len(interfaces)+1) // mostly one each, and ::1
	for _, isIPv4 := range []bool{true, false} {
		for i := range interfaces {
			for _, text := range interfaces[i].Addresses {
				if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() == isIPv4 {
					held = append(held, heldAddress{&interfaces[i], prefix})
				}
			}
		}
	}
	return held
}

// inKernelOrder is the interfaces of a node as its kernel walks them. Probes tell
// them in the order of newer kernels, which costs nothing then.
func inKernelOrder(node *facts.Node) []facts.Interface {
	interfaces, inTurn := node.Net.Interfaces, byIndex
	if kernel := node.Host; kernel != nil && hostfile.Before(release(kernel.Kernel), "6.9") {
		inTurn = byHash
	}
	for i := 1; i < len(interfaces); i++ {
		if inTurn(&interfaces[i-1], &interfaces[i]) > 0 {
			return slices.SortedStableFunc(slices.Values(interfaces), func(a, b facts.Interface) int { return inTurn(&a, &b) })
		}
	}
	return interfaces
}

func byIndex(a, b *facts.Interface) int { return cmp.Compare(a.Index, b.Index) }

// byHash is the order of kernels before 6.9, which walk a hash table of 256
// buckets, the newest interface of a bucket first: a bridge that docker made as
// number 258 comes before the adapter that has been number 2 since the start.
//
// Source: Linux 6.8, net/ipv4/devinet.c, inet_dump_ifaddr, and net/core/dev.c,
// list_netdevice; 6.9, commit cdb2f80f1c10.
func byHash(a, b *facts.Interface) int {
	const buckets = 256
	return cmp.Or(cmp.Compare(a.Index%buckets, b.Index%buckets), cmp.Compare(b.Index, a.Index))
}

// release is the version that a kernel's name begins with ("5.14.0-362.el9_3").
func release(kernel string) string {
	version, _, _ := strings.Cut(kernel, "-")
	return version
}

// holder is the interface of a list that holds an address.
func holder(held []heldAddress, address netip.Addr) (*facts.Interface, bool) {
	address = address.Unmap().WithZone("")
	at := slices.IndexFunc(held, func(h heldAddress) bool { return h.Addr() == address })
	if at < 0 {
		return nil, false
	}
	return held[at].Interface, true
}

// cite is a setting with the place where its author would look for it.
func cite(p Prediction, setting facts.Setting) string {
	from := setting.Source
	exported := slices.ContainsFunc(p.Exports, func(s facts.Setting) bool { return s.Name == setting.Name })
	switch {
	case from == "environment" && exported:
		from = "the launching machine's environment"
	case from == "environment":
		from = "the ssh session's environment"
	}
	return fmt.Sprintf("%s=%s from %s", setting.Name, setting.Value, from)
}
