// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// Device is one port of an RDMA adapter, as NCCL_IB_HCA selects them.
type Device struct {
	Name string // "mlx5_0"
	Port int    // from 1
}

// How many items of a list NCCL reads, and how many interfaces or adapters it
// takes; it silently drops the others.
// Source: NVIDIA/nccl 2.30, MAX_IFS in socket.h and MAX_IB_DEVS in net_ib/common.h.
const (
	maxIfs  = 16
	maxHCAs = 32
	// leastIfname is how long a list of interfaces is at least.
	leastIfname = 2
)

// MatchIfname applies NCCL_SOCKET_IFNAME (and NCCL_OOB_NET_IFNAME, which is
// read alike) to the interfaces of one node. It returns the names selected, in
// the order given, which should be the kernel's: NCCL takes the first one for
// bootstrap. A value shorter than two characters is no choice to NCCL; chosen
// is then false and its defaults apply.
//
// The grammar: an optional ^ (all but these), then an optional = (whole names),
// both at the very start and for the whole list; then names separated by
// commas, prefixes unless = was given, without trimming of blanks.
//
// Source: NVIDIA/nccl 2.30, parseStringList and matchIfList in misc/utils.cc,
// ncclFindInterfaces in misc/socket.cc; unchanged since 2.4.
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

// MatchHCA applies NCCL_IB_HCA to the ports of a node's RDMA adapters, in the
// order given. The grammar is that of MatchIfname with an optional port after
// a colon; an empty value selects everything.
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

// nameFilter is an NCCL name list, of which so many items count. It is read item by item
// wherever it is asked: there are nodes by the thousand, and of items a few.
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

// items are what the list names. A Port of -1 stands for any.
func (f nameFilter) items(yield func(Device) bool) {
	count := 0
	for item := range strings.SplitSeq(f.list, ",") {
		name, rest, _ := strings.Cut(item, ":")
		if name == "" {
			continue
		}
		port, _, _ := strings.Cut(rest, ":") // rail and plane select nothing
		device := Device{Name: name, Port: -1}
		if port != "" {
			device.Port = leadingInt(port)
		}
		if count++; count > f.limit || !yield(device) {
			return
		}
	}
}

// selects says whether the filter leaves the device in. An empty list matches
// everything, so a lone ^ selects nothing.
func (f nameFilter) selects(device Device) bool {
	empty, matches := true, false
	for item := range f.items {
		empty = false
		named := device.Name == item.Name || !f.exact && strings.HasPrefix(device.Name, item.Name)
		matches = matches || named && (item.Port == -1 || device.Port == 0 || item.Port == device.Port)
	}
	return (empty || matches) != f.exclude
}

// leadingInt is C's atoi: the number the text starts with, else 0.
func leadingInt(text string) int {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.Atoi(text[:digits])
	if err != nil {
		return 0
	}
	return n
}

// IfnameFor is the shortest value of NCCL_SOCKET_IFNAME that by NCCL's rules
// selects exactly the wanted interface on every node: one name, a prefix that
// differing names share ("enp"), or "=" and the list of them. "" when none does,
// when a node's interfaces were not seen, or nothing is wanted of it.
//
// Interfaces that are down count as selected: they may be up next time.
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
		shared := sharedPrefix(names[0], names[len(names)-1]) // sorted: of all
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

// Addressed is the interfaces that hold an address.
func Addressed(net *facts.Net) []string {
	var names []string
	for _, i := range net.Interfaces {
		if len(i.Addresses) > 0 {
			names = append(names, i.Name)
		}
	}
	return names
}
