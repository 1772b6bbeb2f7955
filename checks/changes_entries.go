package checks

import (
	"encoding/json"
	"strings"

	"preflight/facts"
)

// moved are the list entries that only one of two looks has, each with how many facts.
type moved struct {
	known      map[string]bool // the entries of either look
	went, came map[string]int
}

func whollyMoved(was, is *facts.Node, section facts.Section, before, after map[string]string) moved {
	then, now := map[string]bool{}, map[string]bool{}
	was.EachEntry(section, func(path string) { then[path] = true })
	is.EachEntry(section, func(path string) { now[path] = true })
	m := moved{known: union(then, now)}
	m.went, m.came = m.count(before, then, now), m.count(after, now, then)
	return m
}

// count counts the facts of every entry that the other side does not have.
func (m moved) count(values map[string]string, entries, others map[string]bool) map[string]int {
	counts := map[string]int{}
	for path := range values {
		for _, entry := range m.entriesOf(path) {
			if entries[entry] && !others[entry] {
				counts[entry]++
			}
		}
	}
	return counts
}

// entriesOf are the entries that a fact is in, the innermost first.
func (m moved) entriesOf(path string) (entries []string) {
	for at := len(path) - 1; at > 0; at-- {
		entry := path[:at]
		if path[at] == '.' && m.known[entry] && (entries == nil || isIn(entry, entries[0])) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// isIn is whether an entry is inside another whose path its own begins with: a list lies
// between them, as in ib.devices.mlx5_0.ports.1. The VLAN eth0.100 is not inside eth0.
func isIn(outer, entry string) bool {
	list, _, more := strings.Cut(entry[len(outer)+1:], ".")
	return more && strings.Trim(list, "0123456789") != ""
}

// nameAndValue is how many facts an entry has that is a name and one value, such as a
// variable. The value is the news there, and the name is none.
const nameAndValue = 2

// present is the value of an entry that came or went as a whole.
const present = `"present"`

// change is that of one fact, or of the outermost entry that it came or went with;
// ok is false for a name that says no more than its path.
func (m moved) change(node, path, before, after string) (c Change, ok bool) {
	counts := m.came
	if after == "" {
		counts = m.went
	}
	whole := ""
	for _, entry := range m.entriesOf(path) {
		if counts[entry] > 0 {
			whole = entry
		}
	}
	switch {
	case whole == "":
	case counts[whole] != nameAndValue:
		path = whole
		if before != "" {
			before = present
		}
		if after != "" {
			after = present
		}
	case strings.HasSuffix(whole, "."+strings.Trim(before+after, `"`)):
		return Change{}, false
	}
	return Change{Node: node, Fact: path, Before: orNull(before), After: orNull(after)}, true
}

func union[V any](a, b map[string]V) map[string]bool {
	paths := map[string]bool{}
	for path := range a {
		paths[path] = true
	}
	for path := range b {
		paths[path] = true
	}
	return paths
}

// orNull is a fact's value as JSON, nil for one that is not there.
func orNull(value string) json.RawMessage {
	if value == "" {
		return nil
	}
	return json.RawMessage(value)
}
