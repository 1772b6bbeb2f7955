package checks

import (
	"encoding/json"
	"maps"

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
// second, the launching machine last. Volatile facts take no part, and neither does a
// section that one of the two looks could not see: [Unseen] tells of those.
//
// Of the facts that are rightly a node's own, those take part that tell one piece of
// hardware from another, and its IPv4 addresses: a machine or a GPU that was replaced is
// a change.
func Changes(before, after facts.Fleet) []Change {
	changes := []Change{}
	was, kept := earlier(before.Nodes, after.Nodes), map[string]bool{}
	for i := range after.Nodes {
		node := &after.Nodes[i]
		old := was[node.Name]
		if old == nil {
			changes = append(changes, Change{Node: node.Name, After: json.RawMessage(`"new node"`)})
			continue
		}
		kept[old.Name] = true
		if old.Name != node.Name {
			changes = append(changes, Change{Node: node.Name, Fact: "name", Before: quoted(old.Name), After: quoted(node.Name)})
		}
		if standing(old) != standing(node) {
			changes = append(changes, Change{Node: node.Name, Before: quoted(standing(old)), After: quoted(standing(node))})
		}
		changes = append(changes, changesOf(old, node)...)
	}
	for i := range before.Nodes {
		if name := before.Nodes[i].Name; !kept[name] {
			changes = append(changes, Change{Node: name, Before: json.RawMessage(`"node"`)})
		}
	}
	return append(changes, headChanges(before.Head, after.Head)...)
}

// headChanges are those of what the launching machine launches with. Where it is another
// one than it was, as every other runner of a CI is, there is nothing to compare.
func headChanges(before, after *facts.Node) []Change {
	if !sameMachine(before, after) {
		return nil
	}
	launches, _ := parted(changesOf(before, after), func(c Change) bool { return sectionOf(c.Fact) == facts.SectionLauncher })
	return launches
}

func sameMachine(before, after *facts.Node) bool {
	return before != nil && after != nil && idOf(before) != "" && idOf(before) == idOf(after)
}

// earlier is what every node was before, by the name it has now: the node of that name
// or, where none had it, the machine that has lost its own. A new node has no entry.
func earlier(before, after []facts.Node) map[string]*facts.Node {
	was, now := byName(before), byName(after)
	nameless := map[string][]*facts.Node{} // machines whose name nobody has now, by their id
	for i := range before {
		if id := idOf(&before[i]); id != "" && now[before[i].Name] == nil {
			nameless[id] = append(nameless[id], &before[i])
		}
	}
	for i := range after {
		name := after[i].Name
		// Machines made of one image may share an id, and are not told apart by it.
		if former := nameless[idOf(&after[i])]; was[name] == nil && len(former) == 1 {
			was[name] = former[0]
			delete(nameless, idOf(&after[i]))
		}
	}
	maps.DeleteFunc(was, func(name string, _ *facts.Node) bool { return now[name] == nil })
	return was
}

// idOf is the machine id of a node, "" for not seen.
func idOf(node *facts.Node) string {
	if node.Host == nil {
		return ""
	}
	return node.Host.MachineID
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

// quoted is plain words, or a list of them, as JSON.
func quoted[Words string | []string](words Words) json.RawMessage {
	text, err := json.Marshal(words)
	if err != nil {
		panic("checks: " + err.Error()) // texts always encode
	}
	return text
}
