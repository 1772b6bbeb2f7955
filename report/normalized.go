// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/maruel/natural"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/launch"
)

// normalized is a snapshot to be kept under version control. Its keys are those of
// checks.Report, which reads it back.
type normalized struct {
	Schema      int                      `json:"schema"`
	Normalized  bool                     `json:"normalized"`
	Interrupted bool                     `json:"interrupted,omitempty"`
	Hostfile    string                   `json:"hostfile"`
	Launch      launch.Prediction        `json:"launch"`
	NotTried    map[facts.Section]string `json:"not_tried,omitempty"`
	Head        *lastingNode             `json:"head,omitempty"`
	Nodes       []lastingNode            `json:"nodes"`
}

// lastingNode is a facts.Node, its facts in the order of their names.
type lastingNode struct {
	Name    string                   `json:"name"`
	Address string                   `json:"address"`
	Slots   int                      `json:"slots"`
	Reached bool                     `json:"reached"`
	Missing map[facts.Section]string `json:"missing,omitempty"`
	Facts   map[string]any           `json:"facts"`
}

// Normalized writes the facts of a run so that a review shows what changed and nothing
// else: those that last, in the order of their names, one node after the other by name
// (w2 before w10). The same nodes looked at twice give the same bytes. [Read] reads it.
func Normalized(w io.Writer, r checks.Report) error {
	text, err := normalize(r).text()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func normalize(r checks.Report) normalized {
	n := normalized{
		Schema: checks.Schema, Normalized: true, Interrupted: r.Interrupted, Hostfile: r.Hostfile, Launch: agreement.LastingLaunch(r.Launch),
		NotTried: withoutMomentary(r.NotTried), Nodes: []lastingNode{},
	}
	if r.Head != nil {
		head := lastingFacts(r.Head)
		head.Facts = r.Head.LastingOfHead()
		n.Head = &head
	}
	for i := range r.Nodes {
		n.Nodes = append(n.Nodes, lastingFacts(&r.Nodes[i]))
	}
	return n
}

func (n normalized) text() ([]byte, error) {
	slices.SortStableFunc(n.Nodes, func(a, b lastingNode) int { return natural.Compare(a.Name, b.Name) })
	var text bytes.Buffer
	if err := JSON(&text, n); err != nil {
		return nil, err
	}
	return []byte(listsInLines(text.String())), nil
}

// widestList is how many characters a list of plain values has at most in one line.
const widestList = 100

// listsInLines puts the lists of plain values in indented JSON into a line each, where
// they fit: the matrix of eight GPUs is eight lines for a review and not eighty.
func listsInLines(indented string) string {
	lines := strings.Split(indented, "\n")
	var kept []string
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if end := plainEnd(lines, i); end > 0 {
			joined := line
			for _, value := range lines[i+1 : end] {
				joined += strings.TrimLeft(value, " ") + " "
			}
			joined = strings.TrimSuffix(joined, " ") + strings.TrimLeft(lines[end], " ")
			if len(joined) <= widestList {
				line, i = joined, end
			}
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// plainEnd is the line that ends the list which begins in another, 0 where none begins or
// it holds more than plain values. A bracket in a text is before its quotation mark.
func plainEnd(lines []string, begin int) int {
	if !strings.HasSuffix(lines[begin], "[") {
		return 0
	}
	for i, line := range lines[begin+1:] {
		text := strings.Trim(line, " ,")
		switch {
		case text == "]":
			return begin + 1 + i
		case strings.HasSuffix(text, "[") || strings.HasSuffix(text, "{"):
			return 0
		}
	}
	return 0
}

func lastingFacts(node *facts.Node) lastingNode {
	return lastingNode{
		Name: node.Name, Address: node.Address, Slots: node.Slots, Reached: node.Reached,
		Missing: withoutMomentary(node.Missing), Facts: node.Lasting(),
	}
}

// withoutMomentary leaves out why sections are not there that never are.
func withoutMomentary(reasons map[facts.Section]string) map[facts.Section]string {
	kept := map[facts.Section]string{}
	for section, reason := range reasons {
		if !slices.Contains(facts.Momentary, section) {
			kept[section] = reason
		}
	}
	return kept
}
