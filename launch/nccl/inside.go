// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// Inside returns what NCCL will use between the GPUs of a node that the launch uses: NVLink or PCIe
// if the GPUs may access each other's memory, otherwise shared memory. If an adapter near two GPUs
// is faster than the path between them, NCCL uses the adapter. Inside does not predict that,
// because preflight does not measure these speeds.
//
// Source: NVIDIA/nccl 2.30.7, graph/paths.cc, ncclTopoCheckP2p; transport/p2p.cc, p2pCanConnect;
// transport/shm.cc, shmCanConnect.
func (t Transports) Inside(node *facts.Node) Transport {
	if t.Accelerator == "cpu" || node.NVML == nil || node.NVML.Failure != nil {
		return Transport{}
	}
	cards := t.gpusUsed(node)
	if len(cards) < 2 || slices.ContainsFunc(cards, func(i int) bool { return node.NVML.Cards[i].MIG == "enabled" }) {
		return Transport{}
	}
	env := launch.RankEnv(node.Env, t.Exports)
	m := matrix{env: env, nvml: node.NVML, cards: cards}
	m.farthest, m.by = peerLevel(node, env, len(cards))
	m.fromFile = env.Get("NCCL_TOPO_FILE").Value != ""
	m.noNVB = env.Get("NCCL_NVB_DISABLE").Value != "" && !isZero(env.Get("NCCL_NVB_DISABLE"))
	m.rest = "shared memory"
	if disabled, _ := Number(env.Get("NCCL_SHM_DISABLE").Value); disabled == 1 {
		m.rest, m.restWhy = "the network", cite(env, env.Get("NCCL_SHM_DISABLE"))
	}
	return m.transport()
}

type matrix struct {
	env           launch.Env
	nvml          *facts.NVML
	cards         []int
	farthest      int           // index into pathTypes up to which NCCL uses peer access
	by            facts.Setting // the variable that sets farthest, zero for NCCL's default
	noNVB         bool
	fromFile      bool   // a file sets the distance of GPUs without NVLink
	rest, restWhy string // transport of pairs without peer access
}

// The kinds of paths between two GPUs, the best first.
const (
	overNVLink = iota
	overPCIe
	overRest
	overUnknown
)

func (m matrix) transportOf(i, j int) (way int, why string) {
	kind := pathType(Joined(m.nvml, i, j))
	if kind != pathType("NVL") && m.throughAnother(i, j) {
		kind = pathType("NVB")
	}
	peers := PeerAccess(m.nvml, i, j)
	linked := kind == pathType("NVL") || kind == pathType("NVB")
	switch {
	case kind < 0 || !linked && (peers == "" || m.fromFile):
		return overUnknown, ""
	case kind > m.farthest && m.by.Name != "":
		return overRest, cite(m.env, m.by)
	case kind > m.farthest:
		return overRest, fmt.Sprintf("they are %s apart, and NCCL's default limit is %s", Joined(m.nvml, i, j), pathTypes[m.farthest])
	case peers != "ok" && peers != "":
		return overRest, "the driver allows no peer access: " + peers
	case linked:
		return overNVLink, ""
	}
	return overPCIe, ""
}

func (m matrix) throughAnother(i, j int) bool {
	linked := func(a, b int) bool { return ByNVLink(Joined(m.nvml, a, b)) }
	return !m.noNVB && slices.ContainsFunc(m.cards, func(k int) bool { return k != i && k != j && linked(i, k) && linked(k, j) })
}

func (m matrix) transport() Transport {
	var count [overUnknown]int
	why := ""
	for a, i := range m.cards {
		for _, j := range m.cards[a+1:] {
			way, reason := m.transportOf(i, j)
			if way == overUnknown {
				return Transport{}
			}
			count[way]++
			why = cmp.Or(why, reason)
		}
	}
	names := [overUnknown]string{"NVLink", "PCIe", m.rest}
	best := slices.IndexFunc(count[:], func(of int) bool { return of > 0 })
	everyone := "all " + strconv.Itoa(len(m.cards)) + " GPUs"
	if len(m.cards) == 2 {
		everyone = "both GPUs"
	}
	t := Transport{Name: names[best], Why: why}
	if count[overRest] > 0 && m.restWhy != "" {
		t.Why = strings.TrimPrefix(t.Why+"; "+m.restWhy, "; ")
	}
	links := ""
	if best != overRest {
		links = m.labels(best)
	}
	if count[best] == len(m.cards)*(len(m.cards)-1)/2 {
		t.Detail = strings.TrimSpace(links + " between " + everyone)
		return t
	}
	var others []string
	for way := best + 1; way < overUnknown; way++ {
		if count[way] > 0 {
			others = append(others, names[way])
		}
	}
	t.Detail = fmt.Sprintf("%s %s; %s between the others", links, m.islands(slices.Collect(m.pairs(best))), strings.Join(others, " or "))
	return t
}

// pairs iterates over the pairs of GPUs with this kind of path.
func (m matrix) pairs(over int) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		for a, i := range m.cards {
			for _, j := range m.cards[a+1:] {
				if way, _ := m.transportOf(i, j); way == over && !yield([2]int{i, j}) {
					return
				}
			}
		}
	}
}

// labels returns the connections of the pairs with this kind of path: "NV18", "PIX to PHB". It
// names pairs that use NVLink through a third GPU only if there are no other pairs.
func (m matrix) labels(over int) string {
	var kinds []string
	for pair := range m.pairs(over) {
		kind := Joined(m.nvml, pair[0], pair[1])
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if slices.ContainsFunc(kinds, ByNVLink) {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return !ByNVLink(kind) })
	}
	near := func(a, b string) int {
		return cmp.Or(cmp.Compare(pathType(a), pathType(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}
	slices.SortFunc(kinds, near)
	if len(kinds) == 1 {
		return kinds[0]
	}
	return kinds[0] + " to " + kinds[len(kinds)-1]
}

// islands describes the groups of GPUs whose pairs are all among the given pairs: "within GPUs 0,1
// and 2,3". If there are no such groups, it returns the number of pairs.
func (m matrix) islands(pairs [][2]int) string {
	inside := 0
	var islands []string
	for _, card := range m.cards {
		var members []string
		for _, other := range m.cards {
			if other == card || slices.Contains(pairs, [2]int{card, other}) || slices.Contains(pairs, [2]int{other, card}) {
				members = append(members, strconv.Itoa(other))
			}
		}
		island := strings.Join(members, ",")
		if len(members) > 1 && !slices.Contains(islands, island) {
			islands = append(islands, island)
			inside += len(members) * (len(members) - 1) / 2
		}
	}
	if inside != len(pairs) { // some pairs are in several groups
		return fmt.Sprintf("between %d of %d pairs of GPUs", len(pairs), len(m.cards)*(len(m.cards)-1)/2)
	}
	return "within GPUs " + strings.Join(islands, " and ")
}
