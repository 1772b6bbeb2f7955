// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/maruel/natural"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/launch"
)

// normalized is a snapshot to keep under version control. It has the same keys as checks.Report, so
// that a snapshot can be decoded as a checks.Report.
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

// lastingNode is a facts.Node with its facts in the order of their names.
type lastingNode struct {
	Name    string                   `json:"name"`
	Address string                   `json:"address"`
	Slots   int                      `json:"slots"`
	Reached bool                     `json:"reached"`
	Missing map[facts.Section]string `json:"missing,omitempty"`
	Facts   map[string]any           `json:"facts"`
}

// Normalized writes the facts of a run so that a diff in a review shows real changes only. It
// leaves out facts that change from run to run. It sorts the other facts by name, and the nodes by
// name (w2 before w10). Two runs over unchanged nodes give the same bytes. [Read] reads the result.
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

// widestList is the maximum number of characters of a list of plain values on one line.
const widestList = 100

// listsInLines puts each list of plain values in indented JSON on one line if it fits. In a review,
// the topology of eight GPUs then takes eight lines instead of eighty.
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

// plainEnd returns the index of the line that ends the list that begins at line begin. It returns 0
// if no list begins at that line or the list holds more than plain values. A bracket inside a
// string always comes before the closing quotation mark, so it does not end the line.
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

// withoutMomentary leaves out the reasons for sections that a snapshot never has.
func withoutMomentary(reasons map[facts.Section]string) map[facts.Section]string {
	kept := map[facts.Section]string{}
	for section, reason := range reasons {
		if !slices.Contains(facts.Momentary, section) {
			kept[section] = reason
		}
	}
	return kept
}

// Accepted returns a saved run as [Normalized] writes it, updated with some of the changes that a
// later run shows. If a fact came or went together with its parent, as torch's version does with
// torch, Accepted takes the whole parent.
func Accepted(saved []byte, later checks.Report, changes []checks.Change) ([]byte, error) {
	was, err := Read(bytes.NewReader(saved))
	if err != nil {
		return nil, err
	}
	if !was.Normalized {
		whole := normalize(was)
		for i := range whole.Nodes {
			leaveOut(&was.Nodes[i], "", whole.Nodes[i].Facts)
		}
		saved, err = whole.text()
	}
	now, unwritten := normalize(later).text()
	before, unread := readNormalized(saved)
	after, again := readNormalized(now)
	if err := errors.Join(err, unwritten, unread, again); err != nil {
		return nil, err
	}
	names := agreement.FormerNames(was.Fleet, later.Fleet)
	for _, c := range changes {
		before.accept(after, c, names)
	}
	return before.text()
}

// leaveOut removes the facts that a file of an older release does not record. A zero would look
// like a measured value.
func leaveOut(node *facts.Node, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			at := strings.TrimPrefix(path+"."+name, ".")
			if !node.Records(at) {
				delete(value, name)
				continue
			}
			leaveOut(node, at, inner)
		}
	case []any:
		for _, inner := range value {
			leaveOut(node, path+".*", inner)
		}
	}
}

// readNormalized reads a snapshot as it was written, without adding facts that it does not record.
func readNormalized(text []byte) (n normalized, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a limit may have more digits than a float64 holds
	err = decoder.Decode(&n)
	return n, err
}

// accept takes one change from a later snapshot. names maps each node's name in the later snapshot
// to the node's name in n.
func (n *normalized) accept(later normalized, c checks.Change, names map[string]string) {
	mine, theirs := n.node(names[c.Node]), later.node(c.Node)
	switch {
	case c.Fact == "":
		n.Nodes = slices.DeleteFunc(n.Nodes, func(node lastingNode) bool { return node.Name == c.Node })
		if theirs != nil {
			n.Nodes = append(n.Nodes, *theirs)
		}
	case c.Fact == "name":
		mine.Name, names[c.Node] = c.Node, c.Node
	case theirs == nil:
		acceptFact(n.Head.Facts, later.Head.Facts, "", c.Fact)
	default:
		acceptFact(mine.Facts, theirs.Facts, "", c.Fact)
	}
}

// node returns the node with a name, nil if there is none.
func (n *normalized) node(name string) *lastingNode {
	i := slices.IndexFunc(n.Nodes, func(node lastingNode) bool { return node.Name == name })
	if i < 0 {
		return nil
	}
	return &n.Nodes[i]
}

// keyed maps the paths of lists with named entries to the field that holds the name.
var keyed = facts.Keys()

// acceptFact returns a value updated with one fact from a later value of the same path. acceptFact
// descends as long as both values contain the parent of the fact.
func acceptFact(was, is any, path, fact string) any {
	by := keyed[path]
	before, after := entries(was, by), entries(is, by)
	if fact == "" || before == nil || after == nil {
		return is
	}
	name := "" // names may contain dots, so the longest match counts
	for _, one := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after))) {
		if (fact == one || strings.HasPrefix(fact, one+".")) && len(one) > len(name) {
			name = one
		}
	}
	value, there := after[name]
	if there {
		below := name
		if by != "" {
			below = "*"
		}
		value = acceptFact(before[name], value, strings.TrimPrefix(path+"."+below, "."), strings.TrimPrefix(fact[len(name):], "."))
	}
	if list, isList := was.([]any); isList {
		order, _ := is.([]any)
		return withEntry(list, order, by, name, value, there)
	}
	if there {
		before[name] = value
	} else {
		delete(before, name)
	}
	return was
}

// entries returns the fields of an object, or the entries of a list, keyed by the field of the
// entries that by names.
func entries(value any, by string) map[string]any {
	list, isList := value.([]any)
	if !isList {
		fields, _ := value.(map[string]any)
		return fields
	}
	named := map[string]any{}
	for _, entry := range list {
		named[nameOf(entry, by)] = entry
	}
	return named
}

func nameOf(entry any, by string) string {
	fields, _ := entry.(map[string]any)
	return fmt.Sprint(fields[by])
}

// withEntry returns a list in which the entry with a name has a value, or is missing if "there" is
// false. A new entry gets the same position as in the later list.
func withEntry(list, order []any, by, name string, value any, there bool) []any {
	find := func(name string) int {
		return slices.IndexFunc(list, func(entry any) bool { return nameOf(entry, by) == name })
	}
	switch at := find(name); {
	case at >= 0 && there:
		list[at] = value
		return list
	case at >= 0:
		return slices.Delete(list, at, at+1)
	case !there:
		return list
	}
	place := 0
	for _, entry := range order {
		if nameOf(entry, by) == name {
			break
		}
		place = max(place, find(nameOf(entry, by))+1)
	}
	return slices.Insert(list, place, value)
}
