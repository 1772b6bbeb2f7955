package checks

import (
	"encoding/json"
	"slices"
	"strings"

	"preflight/facts"
)

// Change is one fact of one node that is not what it was. Before or After is
// null where the fact, or the node, was not there.
type Change struct {
	Node   string          `json:"node"`
	Fact   string          `json:"fact"` // "" when the node itself came, went or is reached otherwise
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Changes compares two looks at a fleet, node by node in the order of the
// second. Volatile facts take no part, and neither does a section that one of
// the two looks could not see: not seen is not changed.
func Changes(before, after []facts.Node) []Change {
	changes := []Change{}
	old := map[string]*facts.Node{}
	for i := range before {
		old[before[i].Name] = &before[i]
	}
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

func changesOf(was, is *facts.Node) []Change {
	var changes []Change
	before, after := was.Comparable(), is.Comparable()
	paths := map[string]bool{}
	for path := range before {
		paths[path] = true
	}
	for path := range after {
		paths[path] = true
	}
	for path := range paths {
		section := sectionOf(path)
		if isLookup(path) && (before[path] == "" || after[path] == "") {
			continue
		}
		if before[path] != after[path] && was.Has(section) && is.Has(section) {
			changes = append(changes, Change{Node: is.Name, Fact: path, Before: orNull(before[path]), After: orNull(after[path])})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Fact, b.Fact) })
	return changes
}

// orNull is a fact's value as JSON, nil for one that is not there.
func orNull(value string) json.RawMessage {
	if value == "" {
		return nil
	}
	return json.RawMessage(value)
}
