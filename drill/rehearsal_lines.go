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
	// keptLine is how many bytes of a line are kept. keptLines is how many lines of each kind are
	// kept per node. These limits are enough to recognise a greeting, and small enough that a node
	// cannot flood the report.
	keptLine  = 500
	keptLines = 20
	// keptStrangers is how many unexpected names are kept separately. It is limited because a range
	// in a name may expand to a whole cluster.
	keptStrangers = 100
)

// linesTo returns a writer that shortens each line to keptLine and passes it to take.
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
	asked int              // number of hosts that pdsh was asked to reach
	named map[string][]int // maps each name that pdsh may print for a node to positions

	lock       sync.Mutex            // held because both streams are read at the same time
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

// inOrder returns the results. The requested hosts are sorted by rank, and the other names by the
// ranks that they answered.
func (r *rehearsed) inOrder() []facts.RehearsalNode {
	slices.SortStableFunc(r.nodes[r.asked:], func(a, b facts.RehearsalNode) int { return slices.Compare(a.Ranks, b.Ranks) })
	return r.nodes
}

// labels returns the names under which pdsh may print a host's output. They are without the user.
// If all hosts share one domain, they are also without the domain (pdsh 2.34, src/common/err.c, %S,
// and src/pdsh/dsh.c, domain_in_label).
func labels(host string) []string {
	bare := host[strings.IndexByte(host, '@')+1:]
	all := []string{host, bare}
	if short, _, _ := strings.Cut(bare, "."); short != "" && (short[0] < '0' || short[0] > '9') {
		all = append(all, short)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// output handles a line of standard output. The line is the echo, other output of a node, or both
// if a login file ends without a newline.
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

// echo returns the rank in a line and the text before it. If the line has no echo, before is the
// whole text and rank is -1.
func (r *rehearsed) echo(text string) (rank int, before string, echoed bool) {
	before, number, found := strings.Cut(text, r.token+"-")
	rank, err := strconv.Atoi(number)
	if !found || err != nil || rank < 0 {
		return -1, text, false
	}
	return rank, strings.TrimSpace(before), true
}

// place returns the position of the node that printed a line of standard output, or -1 if there is
// none. If pdsh uses one name for several hosts, the rank distinguishes them. A line without a
// name, as `pdsh -N` prints it, is assigned only by its rank. An unexpected name is one that pdsh
// derived from another.
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

// complaint handles a line of standard error. The line is from a node, from pdsh about a node
// ("pdsh@head: w1: ssh exited with exit code 255"), or from pdsh about itself. If pdsh uses one
// name for several hosts, each of these hosts gets the line.
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

// splitLabel splits the name off a line of pdsh. label is "" if the line has no name.
func splitLabel(line string) (label, text string) {
	label, text, found := strings.Cut(line, ": ")
	if !found || strings.ContainsAny(label, " \t") {
		return "", line
	}
	return label, strings.TrimSpace(text)
}

// appendLimited appends a line to a list. If the list is full, it ends with "…".
func appendLimited(lines *[]string, line string) {
	switch {
	case len(*lines) < keptLines:
		*lines = append(*lines, line)
	case len(*lines) == keptLines:
		*lines = append(*lines, "…")
	}
}
