// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// deadAfter is for how long a launcher may be silent until the others put it out of the meeting: three
// beats of five seconds, unless their --rdzv-conf says otherwise.
//
// Source: torch 1.9 to 2.15, torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, _sanitize.
const deadAfter = 15

// gathering is what the launchers have agreed on in the store, as the first node has read it that could:
// all read the same. For how long a launcher is silent says its own node, whose clock it tells
// the time by, and where that does not, whoever makes the least of it.
func gathering(nodes []Node) *facts.Gathering {
	var read []*Node
	for i := range nodes {
		if seen := nodes[i].Seen; seen != nil && seen.Gathering != nil {
			read = append(read, &nodes[i])
		}
	}
	if read == nil {
		return nil
	}
	agreed := *read[0].Seen.Gathering
	for _, list := range []*[]facts.Gatherer{&agreed.Joined, &agreed.Waiting, &agreed.Spare} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Silent = silence((*list)[i], read)
		}
	}
	return &agreed
}

// roll is what the store counts, as the first node has read it that could.
func roll(nodes []Node) *facts.Roll {
	for _, node := range nodes {
		if node.Seen != nil && node.Seen.Roll != nil {
			return node.Seen.Roll
		}
	}
	return nil
}

func silence(who facts.Gatherer, read []*Node) (least *float64) {
	for _, node := range read {
		for _, one := range launchers(node.Seen.Gathering) {
			switch {
			case one.Address != who.Address || one.PID != who.PID || one.Silent == nil:
			case runsOn(who, node):
				return one.Silent
			case least == nil || *one.Silent < *least:
				least = one.Silent
			}
		}
	}
	return least
}

func launchers(g *facts.Gathering) []facts.Gatherer {
	return slices.Concat(g.Joined, g.Waiting, g.Spare)
}

// runsOn is whether a launcher has named itself after a node: by its name, with or without the domain
// behind it, or by its address.
func runsOn(who facts.Gatherer, node *Node) bool {
	name := hostfile.Bare(node.Name)
	return who.Address == name || strings.HasPrefix(who.Address, name+".") || who.Address == node.Address
}

// unheard finds launchers that are silent for too long. Of a closed meeting all are, in the end.
func unheard(agreed *facts.Gathering, nodes []Node) (findings []checks.Finding) {
	if agreed == nil || agreed.Closed {
		return nil
	}
	for _, who := range launchers(agreed) {
		if who.Silent == nil || *who.Silent <= deadAfter {
			continue
		}
		f := checks.Finding{
			Summary: fmt.Sprintf("%s's launcher (pid %d) has not been heard for %s: it has ended or hangs, or its clock is behind, and the others take it for dead", who.Address, who.PID, facts.Duration(*who.Silent)),
			Want:    fmt.Sprintf("a beat every %s; after %s the others put it out of the meeting", facts.Duration(deadAfter/3), facts.Duration(deadAfter)),
		}
		look := fix.On("date; ps -o pid,stat,etime,wchan:20,args -p %s", fix.Number(who.PID)).Remark("T is stopped, D waits for a disk")
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
