package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
)

// Folded are differences for a person: those of list entries in one row, and siblings
// that differ alike in one.
func Folded(diffs []checks.FactDiff) []checks.FactDiff {
	return compare.FoldSiblings(foldEntries(diffs))
}

// foldEntries makes one row of all the facts of a list entry that only some
// nodes have: one interface too many is one difference, not one a field. Of an
// entry that is a name and one value, such as a variable, that value is the row.
func foldEntries(diffs []checks.FactDiff) []checks.FactDiff {
	facts := map[string]int{} // entry and who has it → how many facts
	for _, d := range diffs {
		if entry := entryNamedBy(d); entry != "" {
			facts[entryKey(entry, d)] = 0
		}
	}
	for _, d := range diffs {
		if entry := outermost(d, facts); entry != "" {
			facts[entryKey(entry, d)]++
		}
	}
	var folded []checks.FactDiff
	shown := map[string]bool{}
	for _, d := range diffs {
		entry := outermost(d, facts)
		key := entryKey(entry, d)
		switch {
		case entry == "", facts[key] == 2 && entryNamedBy(d) == "":
			folded = append(folded, d)
		case facts[key] != 2 && !shown[key]:
			shown[key] = true
			folded = append(folded, presence(entry, d))
		}
	}
	return folded
}

// entryNamedBy is the list entry whose own name the fact is, "" when it is no
// such fact: net.interfaces.docker0.name is "docker0", so net.interfaces.docker0
// is an entry. Its name may hold dots.
func entryNamedBy(d checks.FactDiff) string {
	dot := strings.LastIndexByte(d.Fact, '.')
	if !oneValueOrNone(d) || dot < 0 {
		return ""
	}
	entry := d.Fact[:dot]
	for _, g := range d.Groups {
		if !Absent(g) && strings.HasSuffix(entry, "."+strings.Trim(string(g.Value), `"`)) {
			return entry
		}
	}
	return ""
}

// outermost is the entry highest up that the fact belongs to: of a device
// that is missing with its ports, the device.
func outermost(d checks.FactDiff, entries map[string]int) string {
	if !oneValueOrNone(d) {
		return ""
	}
	for i, c := range d.Fact {
		if c != '.' {
			continue
		}
		if _, is := entries[entryKey(d.Fact[:i], d)]; is {
			return d.Fact[:i]
		}
	}
	return ""
}

// oneValueOrNone is whether the nodes that have the fact agree on it.
func oneValueOrNone(d checks.FactDiff) bool {
	return len(d.Groups) == 2 && slices.ContainsFunc(d.Groups, Absent)
}

// Absent is whether the nodes of a group lack the fact.
// Absent is whether the nodes of a group lack the fact.
func Absent(g checks.FactGroup) bool { return len(g.Value) == 0 || string(g.Value) == "null" }

// entryKey tells entries apart, and facts of one entry that other nodes lack.
func entryKey(entry string, d checks.FactDiff) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%q", entry)
	for _, g := range d.Groups {
		fmt.Fprintf(&key, " %t%q", Absent(g), g.Nodes)
	}
	return key.String()
}

// presence is the row of a whole entry.
func presence(entry string, d checks.FactDiff) checks.FactDiff {
	row := checks.FactDiff{Fact: entry, Groups: slices.Clone(d.Groups)}
	for i := range row.Groups {
		if !Absent(row.Groups[i]) {
			row.Groups[i].Value = json.RawMessage(`"present"`)
		}
	}
	return row
}
