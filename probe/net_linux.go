package probe

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"preflight/facts"
)

// maxRoutes bounds how many peers a node asks its routing table about. Beyond
// it every n-th peer by name is asked, the same ones on every run.
const maxRoutes = 256

// tcpSettings are the sysctls that change whether and how fast connections of
// a launch come up, or how long a dead one is believed alive.
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
}

// collectNet looks at the network namespace this process is in. Interfaces and
// routes come from the kernel by netlink and not from sysfs, which may belong
// to another namespace. A setting this kernel does not have stays zero or out
// of the map.
func collectNet(ctx context.Context, o options) (*facts.Net, error) {
	links, err := interfaces(o)
	if err != nil {
		return nil, err
	}
	listening, err := listeners(ctx, o)
	if err != nil {
		return nil, err
	}
	low, high := parsePortRange(sysctl(o, "net.ipv4.ip_local_port_range"))
	somaxconn, _ := strconv.Atoi(sysctl(o, "net.core.somaxconn"))
	seen := &facts.Net{
		Interfaces:    links,
		Routes:        routes(o.Peers, links),
		EphemeralLow:  low,
		EphemeralHigh: high,
		Reserved:      sysctl(o, "net.ipv4.ip_local_reserved_ports"),
		Listening:     listening,
		SoMaxConn:     somaxconn,
		TCP:           map[string]string{},
		IPv6:          hasIPv6(o),
	}
	for _, name := range tcpSettings {
		if value := sysctl(o, name); value != "" {
			seen.TCP[name] = value
		}
	}
	return seen, nil
}

// sysctl is a kernel setting with its white space made single blanks, "" when
// this kernel does not have it.
func sysctl(o options, name string) string {
	value := line(o.at("/proc/sys/" + strings.ReplaceAll(name, ".", "/")))
	return strings.Join(strings.Fields(value), " ")
}

func parsePortRange(text string) (low, high int) {
	from, to, _ := strings.Cut(text, " ")
	low, _ = strconv.Atoi(from)
	high, _ = strconv.Atoi(to)
	return low, high
}

// hasIPv6 is whether the kernel has IPv6 (its address table is there) and no
// administrator switched it off for all interfaces.
func hasIPv6(o options) bool {
	return exists(o.at("/proc/net/if_inet6")) && sysctl(o, "net.ipv6.conf.all.disable_ipv6") == "0"
}

// routes asks the kernel how packets to each peer would leave, in the order of
// the peers' names.
func routes(peers map[string]string, links []facts.Interface) []facts.Route {
	found := []facts.Route{}
	for _, name := range evenly(slices.Sorted(maps.Keys(peers)), maxRoutes) {
		found = append(found, routeTo(name, peers[name], links))
	}
	return found
}

// evenly is at most n of the names, spread over all of them, the first included.
func evenly(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	picked := make([]string, n)
	for i := range picked {
		picked[i] = names[i*len(names)/n]
	}
	return picked
}

func routeTo(name, to string, links []facts.Interface) facts.Route {
	route := facts.Route{Name: name, To: to}
	address, err := netip.ParseAddr(to)
	if err != nil {
		route.Error = "not an IP address"
		return route
	}
	// A link-local address means something only together with its interface.
	options := &netlink.RouteGetOptions{Oif: address.Zone()}
	found, err := netlink.RouteGetWithOptions(address.Unmap().AsSlice(), options)
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
	return fmt.Sprintf("interface %d", index) // came up since the list was made
}
