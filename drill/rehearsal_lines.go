// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"preflight/facts"
	"preflight/internal/hostsys"
)

const (
	// keptLine is how much of a line is kept, and keptLines how many of a node's
	// of each kind: enough to recognise a greeting, too little to be flooded.
	keptLine  = 500
	keptLines = 20
	// keptStrangers is how many names that nobody asked for are told apart: a
	// range in a name may be that of a whole cluster.
	keptStrangers = 100
)

// linesTo hands what is written to it to take, each line cut at keptLine.
func linesTo(take func(line string)) *hostsys.Lines {
	return &hostsys.Lines{Most: keptLine, Take: func(printed []byte) {
		if line := strings.ToValidUTF8(string(printed), "�"); strings.TrimSpace(line) != "" {
			take(strings.TrimRight(line, "\r"))
		}
	}}
}

// rehearsed sorts what pdsh prints by the node it is of.
type rehearsed struct {
	token string
	asked int              // how many hosts were
	named map[string][]int // what pdsh may call a node → its places

	lock       sync.Mutex            // both streams are read at the same time
	nodes      []facts.RehearsalNode // those asked, then those that pdsh made of their names
	complaints []string
}

func newRehearsed(hosts []string, token string) *rehearsed {
	r := &rehearsed{token: token, asked: len(hosts), named: map[string][]int{}}
	for i, host := range hosts {
		r.nodes = append(r.nodes, facts.RehearsalNode{Node: host, Ranks: []int{}})
		for _, label := range labels(host) {
			r.named[label] = append(r.named[label], i)
		}
	}
	return r
}

// inOrder is what came back: those asked by rank, the others by what they answered.
func (r *rehearsed) inOrder() []facts.RehearsalNode {
	slices.SortStableFunc(r.nodes[r.asked:], func(a, b facts.RehearsalNode) int { return slices.Compare(a.Ranks, b.Ranks) })
	return r.nodes
}

// labels are the names under which pdsh may print what a host says: without the
// user and, where all hosts share one domain, without that (pdsh 2.34,
// src/common/err.c, %S, and src/pdsh/dsh.c, domain_in_label).
func labels(host string) []string {
	bare := host[strings.IndexByte(host, '@')+1:]
	all := []string{host, bare}
	if short, _, _ := strings.Cut(bare, "."); short != "" && (short[0] < '0' || short[0] > '9') {
		all = append(all, short)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// output takes a line of standard output: the echo, anything else that a node
// said, or both where a login file ends without an end of line.
func (r *rehearsed) output(line string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	label, text := splitLabel(line)
	rank, before, echoed := r.echo(text)
	place := r.place(label, rank)
	switch {
	case place < 0:
		keep(&r.complaints, line)
		return
	case echoed && !slices.Contains(r.nodes[place].Ranks, rank) && len(r.nodes[place].Ranks) < keptLines:
		r.nodes[place].Ranks = append(r.nodes[place].Ranks, rank)
	}
	if before != "" {
		keep(&r.nodes[place].Noise, before)
	}
}

// echo is the rank that came back in a line and what stands before it, which is
// all of it where none did; the rank is then -1.
func (r *rehearsed) echo(text string) (rank int, before string, echoed bool) {
	before, number, found := strings.Cut(text, r.token+"-")
	rank, err := strconv.Atoi(number)
	if !found || err != nil || rank < 0 {
		return -1, text, false
	}
	return rank, strings.TrimSpace(before), true
}

// place is the node that a line of standard output is of, or -1. Hosts that
// pdsh calls by one name are told apart by their rank. A line without a name,
// which is what `pdsh -N` prints, is known by its rank alone, and a name that
// nobody asked for is one that pdsh made of another.
func (r *rehearsed) place(label string, rank int) int {
	known := r.named[label]
	switch {
	case slices.Contains(known, rank):
		return rank
	case len(known) > 0:
		return known[0]
	case label == "" && rank < r.asked:
		return rank
	case label == "" || len(r.nodes) >= r.asked+keptStrangers:
		return -1
	}
	r.nodes = append(r.nodes, facts.RehearsalNode{Node: label, Ranks: []int{}})
	r.named[label] = []int{len(r.nodes) - 1}
	return len(r.nodes) - 1
}

// complaint takes a line of standard error: of a node, of pdsh about a node
// ("pdsh@head: w1: ssh exited with exit code 255"), or of pdsh about itself. One
// of hosts that pdsh calls by one name is kept with them all.
func (r *rehearsed) complaint(line string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	label, text := splitLabel(line)
	if strings.Contains(label, "@") && r.named[label] == nil {
		label, text = splitLabel(text)
	}
	if r.named[label] == nil {
		keep(&r.complaints, line)
		return
	}
	if text == "" {
		return
	}
	for _, place := range r.named[label] {
		keep(&r.nodes[place].Errors, text)
	}
}

// splitLabel takes the name off a line of pdsh; "" when there is none.
func splitLabel(line string) (label, text string) {
	label, text, found := strings.Cut(line, ": ")
	if !found || strings.ContainsAny(label, " \t") {
		return "", line
	}
	return label, strings.TrimSpace(text)
}

// keep adds a line to a list that ends with "…" when it is full.
func keep(lines *[]string, line string) {
	switch {
	case len(*lines) < keptLines:
		*lines = append(*lines, line)
	case len(*lines) == keptLines:
		*lines = append(*lines, "…")
	}
}
