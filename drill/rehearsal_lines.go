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
	// keptLine is how many bytes of a line are kept, and keptLines how many lines of each kind per
	// node. That is enough to recognise a greeting, and too little to be flooded.
	keptLine  = 500
	keptLines = 20
	// keptStrangers is how many unexpected names are kept separately, because a range in a name may
	// expand to a whole cluster.
	keptStrangers = 100
)

// linesTo passes each line that is written to it, shortened to keptLine, to take.
func linesTo(take func(line string)) *hostsys.Lines {
	return &hostsys.Lines{Most: keptLine, Take: func(printed []byte) {
		if line := strings.ToValidUTF8(string(printed), "�"); strings.TrimSpace(line) != "" {
			take(strings.TrimRight(line, "\r"))
		}
	}}
}

// rehearsed sorts pdsh's output by node.
type rehearsed struct {
	token string
	asked int              // number of hosts
	named map[string][]int // the names that pdsh may print for a node → positions

	lock       sync.Mutex            // both streams are read at the same time
	nodes      []facts.RehearsalNode // the requested hosts, then those that pdsh derived from their names
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

// inOrder returns the results: requested hosts by rank, the others by what they answered.
func (r *rehearsed) inOrder() []facts.RehearsalNode {
	slices.SortStableFunc(r.nodes[r.asked:], func(a, b facts.RehearsalNode) int { return slices.Compare(a.Ranks, b.Ranks) })
	return r.nodes
}

// labels returns the names under which pdsh may print a host's output: without the user and, if all
// hosts share one domain, without the domain (pdsh 2.34, src/common/err.c, %S, and src/pdsh/dsh.c,
// domain_in_label).
func labels(host string) []string {
	bare := host[strings.IndexByte(host, '@')+1:]
	all := []string{host, bare}
	if short, _, _ := strings.Cut(bare, "."); short != "" && (short[0] < '0' || short[0] > '9') {
		all = append(all, short)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// output handles a line of standard output: the echo, other output of a node, or both if a login
// file ends without a newline.
func (r *rehearsed) output(line string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	label, text := splitLabel(line)
	rank, before, echoed := r.echo(text)
	place := r.place(label, rank)
	switch {
	case place < 0:
		appendLimited(&r.complaints, line)
		return
	case echoed && !slices.Contains(r.nodes[place].Ranks, rank) && len(r.nodes[place].Ranks) < keptLines:
		r.nodes[place].Ranks = append(r.nodes[place].Ranks, rank)
	}
	if before != "" {
		appendLimited(&r.nodes[place].Noise, before)
	}
}

// echo returns the rank in a line and the text before it. Without an echo, before is the whole text
// and rank is -1.
func (r *rehearsed) echo(text string) (rank int, before string, echoed bool) {
	before, number, found := strings.Cut(text, r.token+"-")
	rank, err := strconv.Atoi(number)
	if !found || err != nil || rank < 0 {
		return -1, text, false
	}
	return rank, strings.TrimSpace(before), true
}

// place returns the node of a line of standard output, or -1. If pdsh uses one name for several
// hosts, the rank distinguishes them. A line without a name, which `pdsh -N` prints, is assigned by
// its rank alone. An unexpected name is one that pdsh derived from another.
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

// complaint handles a line of standard error: from a node, from pdsh about a node ("pdsh@head: w1:
// ssh exited with exit code 255"), or from pdsh about itself. If pdsh uses one name for several
// hosts, each of them gets the line.
func (r *rehearsed) complaint(line string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	label, text := splitLabel(line)
	if strings.Contains(label, "@") && r.named[label] == nil {
		label, text = splitLabel(text)
	}
	if r.named[label] == nil {
		appendLimited(&r.complaints, line)
		return
	}
	if text == "" {
		return
	}
	for _, place := range r.named[label] {
		appendLimited(&r.nodes[place].Errors, text)
	}
}

// splitLabel splits the name off a line of pdsh; label is "" if there is none.
func splitLabel(line string) (label, text string) {
	label, text, found := strings.Cut(line, ": ")
	if !found || strings.ContainsAny(label, " \t") {
		return "", line
	}
	return label, strings.TrimSpace(text)
}

// appendLimited adds a line to a list; a full list ends with "…".
func appendLimited(lines *[]string, line string) {
	switch {
	case len(*lines) < keptLines:
		*lines = append(*lines, line)
	case len(*lines) == keptLines:
		*lines = append(*lines, "…")
	}
}
