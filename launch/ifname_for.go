package launch

import (
	"slices"
	"strings"

	"preflight/facts"
)

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
			selected, _ := MatchIfname(value, addressed(node.Net))
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

// addressed is the interfaces that hold an address.
func addressed(net *facts.Net) []string {
	var names []string
	for _, i := range net.Interfaces {
		if len(i.Addresses) > 0 {
			names = append(names, i.Name)
		}
	}
	return names
}
