// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// tcpSettings lists the sysctls that affect a launch's connections: whether and how fast they are
// made, and how long a dead connection counts as alive.
var tcpSettings = []string{
	"net.core.netdev_max_backlog",
	"net.core.rmem_max",
	"net.core.wmem_max",
	"net.ipv4.conf.all.rp_filter",
	"net.ipv4.conf.default.rp_filter",
	"net.ipv4.tcp_abort_on_overflow",
	"net.ipv4.tcp_congestion_control",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_max_syn_backlog",
	"net.ipv4.tcp_mtu_probing",
	"net.ipv4.tcp_retries2",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syn_retries",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_timestamps",
	"net.ipv4.tcp_tw_reuse",
	"net.ipv4.tcp_wmem",
	"net.netfilter.nf_conntrack_max",
	"net.netfilter.nf_conntrack_tcp_loose",
	"net.netfilter.nf_conntrack_tcp_timeout_established",
}

// CollectNet reads the network namespace of this process. Interfaces and routes come from the
// kernel through netlink and not from sysfs, which may show another namespace. If this kernel does
// not have a setting, the field stays 0, or the map has no entry for it.
func CollectNet(ctx context.Context, o machine.Options) (*facts.Net, error) {
	links, err := interfaces(o)
	if err != nil {
		return nil, err
	}
	listening, err := listeners(ctx, o)
	if err != nil {
		return nil, err
	}
	low, high := parsePortRange(sysctl(o, "net.ipv4.ip_local_port_range"))
	tracked, _ := strconv.Atoi(sysctl(o, "net.netfilter.nf_conntrack_count"))
	somaxconn, _ := strconv.Atoi(sysctl(o, "net.core.somaxconn"))
	outward := routes(map[string]string{"": "8.8.8.8"}, links)[0]
	seen := &facts.Net{
		Interfaces:    links,
		Routes:        routes(o.Peers, links),
		Default:       &outward,
		EphemeralLow:  low,
		EphemeralHigh: high,
		Reserved:      sysctl(o, "net.ipv4.ip_local_reserved_ports"),
		Listening:     listening,
		SoMaxConn:     somaxconn,
		TCP:           map[string]string{},
		IPv6:          hasIPv6(o),
		Neighbours:    neighbours(),
		Counters:      hostsys.LinkCounters(o.At("/")),
		Docker:        docker(o),
		Tracked:       tracked,
		Rules:         rules(ctx, o),
	}
	for _, name := range tcpSettings {
		if value := sysctl(o, name); value != "" {
			seen.TCP[name] = value
		}
	}
	return seen, nil
}

// sysctl returns a kernel setting with one space between words. It returns "" if this kernel does
// not have the setting.
func sysctl(o machine.Options, name string) string {
	value := machine.Line(o.At("/proc/sys/" + strings.ReplaceAll(name, ".", "/")))
	return strings.Join(strings.Fields(value), " ")
}

func parsePortRange(text string) (low, high int) {
	from, to, _ := strings.Cut(text, " ")
	low, _ = strconv.Atoi(from)
	high, _ = strconv.Atoi(to)
	return low, high
}

// neighbours returns the kernel's neighbour tables, or nil if the kernel does not report them.
func neighbours() (tables []facts.NeighbourTable) {
	found, err := hostsys.NeighbourTables()
	learned, notListed := hostsys.LearnedNeighbours()
	if err != nil || notListed != nil {
		return nil
	}
	for _, table := range found {
		tables = append(tables, facts.NeighbourTable{
			Name: table.Name, GCThresh1: table.Thresholds[0], GCThresh2: table.Thresholds[1], GCThresh3: table.Thresholds[2],
			Entries: table.Entries, Learned: learned[table.Name], Overflows: table.Overflows,
		})
	}
	return tables
}

// hasIPv6 reports whether the kernel has IPv6 (its address table exists), and IPv6 is not disabled
// for all interfaces.
func hasIPv6(o machine.Options) bool {
	return machine.Exists(o.At("/proc/net/if_inet6")) && sysctl(o, "net.ipv6.conf.all.disable_ipv6") == "0"
}

// routes asks the kernel how packets to each peer would leave this node. It asks over one socket,
// and the result has the order of the peers' names.
func routes(peers map[string]string, links []facts.Interface) []facts.Route {
	found := []facts.Route{}
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		kernel = &netlink.Handle{} // this handle opens a socket per request, and returns the error
	}
	defer kernel.Close()
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		found = append(found, routeTo(kernel, name, peers[name], links))
	}
	return found
}

func routeTo(kernel *netlink.Handle, name, to string, links []facts.Interface) facts.Route {
	route := facts.Route{Name: name, To: to}
	address, err := netip.ParseAddr(to)
	if err != nil {
		route.Error = "not an IP address"
		return route
	}
	// A link-local address is meaningful only together with its interface.
	options := &netlink.RouteGetOptions{Oif: address.Zone()}
	found, err := kernel.RouteGetWithOptions(address.Unmap().AsSlice(), options)
	if err == nil && len(found) == 0 {
		err = syscall.ENETUNREACH
	}
	if err != nil {
		route.Error = err.Error()
		return route
	}
	way := found[0]
	route.Interface = interfaceName(links, way.LinkIndex)
	if way.Src != nil {
		route.Source = way.Src.String()
	}
	if way.Gw != nil {
		route.Gateway = way.Gw.String()
	}
	return route
}

func interfaceName(links []facts.Interface, index int) string {
	for _, link := range links {
		if link.Index == index {
			return link.Name
		}
	}
	return fmt.Sprintf("interface %d", index) // the interface was created after the list was read
}

// interfaces lists the links of this network namespace by index. Each link has its addresses in the
// order in which getifaddrs returns them. NCCL uses that order too.
func interfaces(o machine.Options) ([]facts.Interface, error) {
	links, err := netlink.LinkList()
	// An interrupted dump means that the list changed while it was read. A partial list is better
	// than none.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	slices.SortFunc(links, func(a, b netlink.Link) int { return cmp.Compare(a.Attrs().Index, b.Attrs().Index) })

	found := []facts.Interface{}
	for _, link := range links {
		attrs := link.Attrs()
		sys := openSysfsLink(o, attrs.Name, attrs.Index, attrs.HardwareAddr.String())
		found = append(found, facts.Interface{
			Name:      attrs.Name,
			Index:     attrs.Index,
			Up:        attrs.RawFlags&unix.IFF_UP != 0,
			Running:   attrs.RawFlags&unix.IFF_RUNNING != 0,
			Loopback:  attrs.RawFlags&unix.IFF_LOOPBACK != 0,
			MTU:       attrs.MTU,
			MAC:       attrs.HardwareAddr.String(),
			Kind:      linkKind(attrs.Name, link.Type(), attrs.EncapType, attrs.ParentDev != "" || sys.has("device"), sys.has("phy80211")),
			Driver:    sys.driver(),
			Speed:     sys.speed(),
			Addresses: addressesOf(addresses, attrs.Index),
			Master:    masterName(links, attrs.MasterIndex),
		})
	}
	return found, nil
}

// addressesOf returns the prefixes of one link, IPv4 before IPv6, and otherwise in the kernel's
// order.
func addressesOf(all []netlink.Addr, index int) []string {
	v4, v6 := []string{}, []string{}
	for _, address := range all {
		switch {
		case address.LinkIndex != index:
		case address.IP.To4() != nil:
			v4 = append(v4, address.IPNet.String())
		default:
			v6 = append(v6, address.IPNet.String())
		}
	}
	return append(v4, v6...)
}

func masterName(links []netlink.Link, index int) string {
	for _, link := range links {
		if index != 0 && link.Attrs().Index == index {
			return link.Attrs().Name
		}
	}
	return ""
}

// dockerBridge matches the name of Docker's bridge for a user-defined network: br- and the first
// twelve digits of the network's ID.
var dockerBridge = lazyregexp.New(`^br-[0-9a-f]{12}$`)

// linkKinds maps the kernel's link types (IFLA_INFO_KIND) to the values of Interface.Kind.
var linkKinds = map[string]string{
	"bridge": "bridge", "openvswitch": "bridge",
	"veth": "veth", "netkit": "veth",
	"bond": "bond", "team": "bond",
	"vlan":  "vlan",
	"dummy": "dummy", "nlmon": "dummy",
	"ipoib": "infiniband",
	"tun":   "tunnel", "tuntap": "tunnel", "vxlan": "tunnel", "geneve": "tunnel", "wireguard": "tunnel",
	"gre": "tunnel", "gretap": "tunnel", "ip6gre": "tunnel", "ip6gretap": "tunnel", "erspan": "tunnel",
	"ipip": "tunnel", "ip6tnl": "tunnel", "sit": "tunnel", "vti": "tunnel", "vti6": "tunnel", "xfrm": "tunnel",
	"bareudp": "tunnel", "ovpn": "tunnel",
}

// linkKind returns the kind of one link. linkType is the kernel's link type, or "device" if a
// driver made the link without a type. encap is the hardware type.
func linkKind(name, linkType, encap string, device, wireless bool) string {
	kind, known := linkKinds[linkType]
	switch {
	case encap == "loopback":
		return "loopback"
	case strings.HasPrefix(name, "docker"), dockerBridge.MatchString(name):
		return "docker"
	case encap == "infiniband":
		return "infiniband"
	case known:
		return kind
	case linkType != "device":
		return "other"
	case wireless:
		return "wireless"
	case device:
		return "physical"
	}
	return "other"
}

// sysfsLink is a link's directory in sysfs, or "" if there is no reliable directory. If /sys was
// mounted in another network namespace, it shows the links of that namespace. There, the same names
// stand for other devices.
type sysfsLink string

func openSysfsLink(o machine.Options, name string, index int, mac string) sysfsLink {
	link := sysfsLink(o.At("/sys/class/net/" + name))
	if machine.Line(link.path("ifindex")) != strconv.Itoa(index) || (mac != "" && machine.Line(link.path("address")) != mac) {
		return ""
	}
	return link
}

func (l sysfsLink) path(entry string) string { return filepath.Join(string(l), entry) }

func (l sysfsLink) has(entry string) bool { return l != "" && machine.Exists(l.path(entry)) }

// driver returns the driver of the link's device, or "" if the link has no device.
func (l sysfsLink) driver() string {
	if l == "" {
		return ""
	}
	return machine.Driver(l.path("device"))
}

// speed returns the link's speed in bits per second. The file in sysfs has megabits per second. It
// cannot be read while the link is down, and contains -1 if the driver does not know the speed.
func (l sysfsLink) speed() *int64 {
	megabits, known := machine.Number(l.path("speed"))
	if l == "" || !known || megabits <= 0 {
		return nil
	}
	return new(megabits * 1_000_000)
}
