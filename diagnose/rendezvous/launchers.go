// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// deadAfter is how many seconds a launcher may be silent before the others remove it from the
// rendezvous: three heartbeats of five seconds, unless their --rdzv-conf changes it.
//
// Source: torch 1.9 to 2.15, torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, _sanitize.
const deadAfter = 15

// gathering returns what the launchers have agreed on in the store, as read by the first node that
// could read it. All nodes read the same state. Only the silent times differ.
func gathering(nodes []Node) *facts.Gathering {
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Seen != nil && n.Seen.Gathering != nil })
	if at < 0 {
		return nil
	}
	agreed, silent := *nodes[at].Seen.Gathering, silences(nodes)
	for _, list := range []*[]facts.Gatherer{&agreed.Joined, &agreed.Waiting, &agreed.Spare} {
		*list = slices.Clone(*list)
		for i, who := range *list {
			(*list)[i].Silent = silent[process{who.Address, who.PID}].seconds
		}
	}
	return &agreed
}

// process identifies a launcher by the name that it gives itself and by its process ID.
type process struct {
	address string
	pid     int
}

// silence is the time since a launcher's last heartbeat.
type silence struct {
	node    string   // the launcher's node, "" if that node has not read the store
	seconds *float64 // measured with the clock of that node, which also stamps the heartbeats; without that node, the smallest value that any node reports
}

func silences(nodes []Node) map[process]silence {
	all := map[process]silence{}
	for i := range nodes {
		node := &nodes[i]
		for _, who := range gathered(node) {
			k := process{who.Address, who.PID}
			known := all[k]
			switch {
			case who.Silent == nil || known.node != "":
			case runsOn(who, node):
				all[k] = silence{node.Name, who.Silent}
			case known.seconds == nil || *who.Silent < *known.seconds:
				all[k] = silence{"", who.Silent}
			}
		}
	}
	return all
}

// roll returns the store's own counts, as read by the first node that could read them.
func roll(nodes []Node) *facts.Roll {
	for _, node := range nodes {
		if node.Seen != nil && node.Seen.Roll != nil {
			return node.Seen.Roll
		}
	}
	return nil
}

func launchers(g *facts.Gathering) []facts.Gatherer {
	return slices.Concat(g.Joined, g.Waiting, g.Spare)
}

// runsOn reports whether a launcher's name belongs to the node. The name may be the node's host
// name, with or without a domain, or the node's address.
func runsOn(who facts.Gatherer, node *Node) bool {
	name := hostfile.Bare(node.Name)
	return who.Address == name || strings.HasPrefix(who.Address, name+".") || who.Address == node.Address
}

// unheard finds launchers that are silent for too long. After a rendezvous is closed, all launchers
// become silent, so unheard reports nothing.
func unheard(agreed *facts.Gathering, nodes []Node) (findings []checks.Finding) {
	if agreed == nil || agreed.Closed {
		return nil
	}
	for _, who := range launchers(agreed) {
		if who.Silent == nil || *who.Silent <= deadAfter {
			continue
		}
		f := checks.Finding{
			Summary: fmt.Sprintf("%s's launcher (pid %d) has sent no heartbeat for %s: it has ended or hangs, or its clock is behind, so the others treat it as dead", who.Address, who.PID, text.Duration(*who.Silent)),
			Want:    fmt.Sprintf("a heartbeat every %s; after %s the others remove it from the rendezvous", text.Duration(deadAfter/3), text.Duration(deadAfter)),
		}
		look := fix.On("date; ps -o pid,stat,etime,wchan:20,args -p %s", fix.Number(who.PID)).Remark("T means stopped, D waiting for a disk")
		if at := slices.IndexFunc(nodes, func(n Node) bool { return runsOn(who, &n) }); at >= 0 {
			f.Nodes = []string{nodes[at].Name}
		} else {
			look = look.At(who.Address)
		}
		f.Remedy = []fix.Command{look}
		findings = append(findings, f)
	}
	return findings
}

// doubt means that a launcher looks dead by the clock of one node and alive by the clock of its own
// node.
type doubt struct{ by, of string }

// skewed finds clocks that make living launchers look dead. Each launcher stamps its heartbeats
// with its own clock, and measures the age of other launchers' heartbeats with the same clock. To a
// launcher whose clock is ahead, all others look dead. A launcher whose clock is behind looks dead
// to all others.
func skewed(agreed *facts.Gathering, nodes []Node) (findings []checks.Finding) {
	if agreed == nil || agreed.Closed {
		return nil
	}
	apart := doubts(nodes)
	for len(apart) > 0 {
		times := map[string]int{}
		for d := range apart {
			times[d.by]++
			times[d.of]++
		}
		// Assume that the clock that explains the most doubts is wrong. If only two clocks differ,
		// either may be wrong.
		odd := slices.MaxFunc(slices.Sorted(maps.Keys(times)), func(a, b string) int { return cmp.Or(times[a]-times[b], strings.Compare(b, a)) })
		var late, early []string // nodes that treat odd as dead, and nodes that odd treats as dead
		var seconds float64
		for d, by := range apart {
			switch odd {
			case d.of:
				late = append(late, d.by)
			case d.by:
				early = append(early, d.of)
			default:
				continue
			}
			seconds = max(seconds, by)
			delete(apart, d)
		}
		others := slices.Sorted(slices.Values(slices.Concat(late, early)))
		f := checks.Finding{
			Nodes:   []string{odd},
			Summary: fmt.Sprintf("the clock of %s is %s behind that of %s: its launcher sends heartbeats, but they treat it as dead", odd, text.Duration(seconds), text.List(others)),
			Want:    fmt.Sprintf("clocks less than %s apart", text.Duration(deadAfter)),
			Remedy:  []fix.Command{fix.On(remedy.SetClock)},
		}
		if len(early) > len(late) {
			f.Summary = fmt.Sprintf("the clock of %s is %s ahead of that of %s: their launchers send heartbeats, but it treats them as dead", odd, text.Duration(seconds), text.List(others))
		}
		if len(others) == 1 {
			f.Nodes = append(f.Nodes, others[0])
		}
		findings = append(findings, f)
	}
	return findings
}

// doubts returns the doubts between launchers whose nodes have both read the store. The values are
// the differences of the clocks in seconds.
func doubts(nodes []Node) map[doubt]float64 {
	apart, silent := map[doubt]float64{}, silences(nodes)
	for i := range nodes {
		for _, who := range gathered(&nodes[i]) {
			own := silent[process{who.Address, who.PID}]
			if own.node != "" && *own.seconds <= deadAfter && who.Silent != nil && *who.Silent > deadAfter {
				apart[doubt{nodes[i].Name, own.node}] = *who.Silent - *own.seconds
			}
		}
	}
	return apart
}

// gathered returns the launchers that a node has read about.
func gathered(node *Node) []facts.Gatherer {
	if node.Seen == nil || node.Seen.Gathering == nil {
		return nil
	}
	return launchers(node.Seen.Gathering)
}
