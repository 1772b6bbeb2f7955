// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// Device is one port of an RDMA adapter, the unit that NCCL_IB_HCA selects.
type Device struct {
	Name string // "mlx5_0"
	Port int    // port number, from 1
}

// The limits on the list items that NCCL reads, and on the interfaces or adapters that it uses.
// NCCL silently drops the rest.
// Source: NVIDIA/nccl 2.30, MAX_IFS in socket.h and MAX_IB_DEVS in net_ib/common.h.
const (
	maxIfs  = 16
	maxHCAs = 32
	// leastIfname is the minimum length of a list of interfaces, in characters.
	leastIfname = 2
)

// MatchIfname applies NCCL_SOCKET_IFNAME (or NCCL_OOB_NET_IFNAME, which has the same grammar) to
// the interfaces of a node. It returns the selected names in the order of names, which should be
// the kernel's: NCCL uses the first one for bootstrap. NCCL ignores a value of less than two
// characters. chosen is then false, and NCCL's defaults apply.
//
// A value begins with an optional ^ (all interfaces but these), then an optional = (whole names).
// Both apply to the whole list. The names follow, separated by commas. Without =, each name is a
// prefix. NCCL does not trim spaces.
//
// Source: NVIDIA/nccl 2.30, parseStringList and matchIfList in misc/utils.cc, ncclFindInterfaces in
// misc/socket.cc; unchanged since 2.4.
func MatchIfname(spec string, names []string) (selected []string, chosen bool) {
	if len(spec) < leastIfname {
		return nil, false
	}
	filter := parseNameFilter(spec, maxIfs)
	for _, name := range names {
		if filter.selects(Device{Name: name}) {
			selected = append(selected, name)
		}
	}
	return selected, true
}

// MatchHCA applies NCCL_IB_HCA to the ports of a node's RDMA adapters and keeps their order. The
// grammar is that of MatchIfname, with an optional port after a colon. An empty value selects
// everything.
//
// Source: NVIDIA/nccl 2.30, transport/net_ib/init.cc.
func MatchHCA(spec string, devices []Device) []Device {
	filter := parseNameFilter(spec, maxHCAs)
	var selected []Device
	for _, device := range devices {
		if filter.selects(device) {
			selected = append(selected, device)
		}
	}
	return selected
}

// nameFilter is an NCCL name list with a maximum number of items. It is parsed on every use,
// because lists are short and storing the result for thousands of nodes would not pay off.
type nameFilter struct {
	exclude, exact bool
	list           string
	limit          int
}

func parseNameFilter(spec string, limit int) nameFilter {
	f := nameFilter{limit: limit}
	spec, f.exclude = strings.CutPrefix(spec, "^")
	f.list, f.exact = strings.CutPrefix(spec, "=")
	return f
}

// items iterates over the items of the list. A Port of -1 means any port.
func (f nameFilter) items(yield func(Device) bool) {
	count := 0
	for item := range strings.SplitSeq(f.list, ",") {
		name, rest, _ := strings.Cut(item, ":")
		if name == "" {
			continue
		}
		port, _, _ := strings.Cut(rest, ":") // rail and plane do not affect the selection
		device := Device{Name: name, Port: -1}
		if port != "" {
			device.Port = leadingInt(port)
		}
		if count++; count > f.limit || !yield(device) {
			return
		}
	}
}

// selects reports whether the filter selects the device. An empty list matches everything, so a
// lone ^ selects nothing.
func (f nameFilter) selects(device Device) bool {
	empty, matches := true, false
	for item := range f.items {
		empty = false
		named := device.Name == item.Name || !f.exact && strings.HasPrefix(device.Name, item.Name)
		matches = matches || named && (item.Port == -1 || device.Port == 0 || item.Port == device.Port)
	}
	return (empty || matches) != f.exclude
}

// leadingInt works like C's atoi: it returns the number at the start of the text, otherwise 0.
func leadingInt(text string) int {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.Atoi(text[:digits])
	if err != nil {
		return 0
	}
	return n
}

// IfnameFor returns the shortest value of NCCL_SOCKET_IFNAME that selects exactly the wanted
// interface on every node. The value is one name, a prefix that the names share ("enp"), or "=" and
// a list of names. IfnameFor returns "" if there is no such value, if a node's interfaces were not
// seen, or if no interface is wanted on a node.
//
// Interfaces that are down count as selected, because they may be up at the next launch.
func IfnameFor(nodes []*facts.Node, wanted func(*facts.Node) string) string {
	want := make([]string, len(nodes))
	for i, node := range nodes {
		if want[i] = wanted(node); node.Net == nil || want[i] == "" {
			return ""
		}
	}
	names := slices.Compact(slices.Sorted(slices.Values(want)))
	if len(names) == 0 {
		return ""
	}
	exact := "=" + strings.Join(names, ",")
	candidates := []string{names[0], exact}
	if len(names) > 1 {
		shared := sharedPrefix(names[0], names[len(names)-1]) // the names are sorted, so the first and last share only the prefix of all
		candidates = []string{strings.TrimRight(shared, "0123456789"), shared, exact}
	}
	for _, value := range candidates {
		fits := true
		for i, node := range nodes {
			selected, _ := MatchIfname(value, Addressed(node.Net))
			fits = fits && slices.Equal(selected, want[i:i+1])
		}
		if fits {
			return value
		}
	}
	return ""
}

func sharedPrefix(a, b string) string {
	end := 0
	for end < len(a) && end < len(b) && a[end] == b[end] {
		end++
	}
	return a[:end]
}

// Addressed returns the interfaces that have an address.
func Addressed(net *facts.Net) []string {
	var names []string
	for _, i := range net.Interfaces {
		if len(i.Addresses) > 0 {
			names = append(names, i.Name)
		}
	}
	return names
}
