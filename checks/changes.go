package checks

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// Change is one fact of one node that is not what it was. Before or After is
// null where the fact, or the node, was not there. A list entry that came or went
// with several facts (a GPU, an interface) is one change, whose value is "present".
type Change struct {
	Node   string          `json:"node"`
	Fact   string          `json:"fact"` // "" when the node itself came, went or is reached otherwise
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// came is whether there is something where nothing was, and gone the reverse.
func (c Change) came() bool { return len(c.Before) == 0 }
func (c Change) gone() bool { return len(c.After) == 0 }

// Changes compares two looks at a fleet, node by node in the order of the
// second. Volatile facts take no part, and neither does a section that one of
// the two looks could not see: not seen is not changed.
//
// Of the facts that are rightly a node's own, those take part that tell one piece of
// hardware from another: a machine or a GPU that was replaced is a change.
func Changes(before, after []facts.Node) []Change {
	changes := []Change{}
	old := byName(before)
	for i := range after {
		node := &after[i]
		was, known := old[node.Name]
		delete(old, node.Name)
		if !known {
			changes = append(changes, Change{Node: node.Name, After: json.RawMessage(`"new node"`)})
			continue
		}
		if standing(was) != standing(node) {
			changes = append(changes, Change{Node: node.Name, Before: quoted(standing(was)), After: quoted(standing(node))})
		}
		changes = append(changes, changesOf(was, node)...)
	}
	for i := range before {
		if _, gone := old[before[i].Name]; gone {
			changes = append(changes, Change{Node: before[i].Name, Before: json.RawMessage(`"node"`)})
		}
	}
	return changes
}

func byName(nodes []facts.Node) map[string]*facts.Node {
	named := make(map[string]*facts.Node, len(nodes))
	for i := range nodes {
		named[nodes[i].Name] = &nodes[i]
	}
	return named
}

// standing is how far the login to a node got.
func standing(node *facts.Node) string {
	cause := ""
	if node.SSH != nil && node.SSH.Cause != "" {
		cause = ": " + node.SSH.Cause
	}
	switch {
	case !node.Reached:
		return "not reached" + cause
	case cause != "":
		return "reached, then lost" + cause
	}
	return "reached"
}

// quoted is plain words as JSON.
func quoted(words string) json.RawMessage {
	text, err := json.Marshal(words)
	if err != nil {
		panic("checks: " + err.Error()) // a string always encodes
	}
	return text
}

// changesOf are the changes of one node that both looks have, by the name of the fact.
func changesOf(was, is *facts.Node) []Change {
	var changes []Change
	for _, section := range facts.Sections() {
		if !was.Has(section) || !is.Has(section) {
			continue
		}
		before, after := valuesOf(was, section), valuesOf(is, section)
		whole := whollyMoved(was, is, section, before, after)
		for path := range union(before, after) {
			if isLookup(path) && (before[path] == "" || after[path] == "") || before[path] == after[path] {
				continue
			}
			if c, ok := whole.change(is.Name, path, before[path], after[path]); ok {
				changes = append(changes, c)
			}
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Fact, b.Fact) })
	return slices.CompactFunc(changes, func(a, b Change) bool { return a.Fact == b.Fact })
}

// valuesOf are the facts of a section that may be compared over time.
func valuesOf(node *facts.Node, section facts.Section) map[string]string {
	values := map[string]string{}
	passing := containerEnds(node)
	node.EachComparable(section, func(path, value string) {
		if !slices.ContainsFunc(passing, func(end string) bool { return strings.HasPrefix(path, end) }) {
			values[path] = value
		}
	})
	switch {
	case section == facts.SectionHost && node.Host.MachineID != "":
		values[machineID] = string(quoted(node.Host.MachineID))
	case section == facts.SectionNVML:
		for _, card := range node.NVML.Cards {
			if card.UUID != "" {
				values["nvml.cards."+strconv.Itoa(card.Index)+".uuid"] = string(quoted(card.UUID))
			}
		}
	}
	return values
}

// machineID is the fact that tells one machine from another under the same name.
const machineID = "host.machine_id"

// containerEnds are the paths of the interfaces that lead into containers: they come and
// go with them, under names of chance.
func containerEnds(node *facts.Node) (paths []string) {
	if node.Net == nil {
		return nil
	}
	for _, nic := range node.Net.Interfaces {
		if nic.Kind == "veth" && nic.Master != "" {
			paths = append(paths, "net.interfaces."+nic.Name+".")
		}
	}
	return paths
}

func union(a, b map[string]string) map[string]bool {
	paths := map[string]bool{}
	for path := range a {
		paths[path] = true
	}
	for path := range b {
		paths[path] = true
	}
	return paths
}

// moved are the list entries that only one of two looks has, each with how many facts.
type moved struct{ went, came map[string]int }

func whollyMoved(was, is *facts.Node, section facts.Section, before, after map[string]string) moved {
	then, now := map[string]bool{}, map[string]bool{}
	was.EachEntry(section, func(path string) { then[path] = true })
	is.EachEntry(section, func(path string) { now[path] = true })
	return moved{went: countFacts(before, then, now), came: countFacts(after, now, then)}
}

// countFacts counts the facts of every entry that the other side does not have.
func countFacts(values map[string]string, entries, others map[string]bool) map[string]int {
	counts := map[string]int{}
	for path := range values {
		for at, c := range path {
			if entry := path[:at]; c == '.' && entries[entry] && !others[entry] {
				counts[entry]++
			}
		}
	}
	return counts
}

// nameAndValue is how many facts an entry has that is a name and one value, such as a
// variable. The value is the news there, and the name is none.
const nameAndValue = 2

// change is that of one fact, or of the outermost entry that it came or went with;
// ok is false for a name that says no more than its path.
func (m moved) change(node, path, before, after string) (c Change, ok bool) {
	entries := m.came
	if after == "" {
		entries = m.went
	}
	for at, char := range path {
		count := entries[path[:at]]
		if char != '.' || count == 0 {
			continue
		}
		entry := path[:at]
		if count == nameAndValue {
			if strings.HasSuffix(entry, "."+strings.Trim(before+after, `"`)) {
				return Change{}, false
			}
			break
		}
		path = entry
		if before != "" {
			before = `"present"`
		}
		if after != "" {
			after = `"present"`
		}
		break
	}
	return Change{Node: node, Fact: path, Before: orNull(before), After: orNull(after)}, true
}

// orNull is a fact's value as JSON, nil for one that is not there.
func orNull(value string) json.RawMessage {
	if value == "" {
		return nil
	}
	return json.RawMessage(value)
}
