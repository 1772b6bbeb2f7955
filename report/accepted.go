// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
)

// Accepted returns a saved run as [Normalized] writes it, with some of the changes that a later run
// shows. Where a fact came or went with what holds it (torch's version with torch), Accepted
// takes that as a whole.
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

// leaveOut removes what the file of a node, of an older release, does not record: a zero would look
// like a value.
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

// readNormalized reads a snapshot as it was written: what it does not record stays away.
func readNormalized(text []byte) (n normalized, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a limit may have more digits than a float64
	err = decoder.Decode(&n)
	return n, err
}

// accept takes one change from a later snapshot. The names are those that nodes have in n, by
// their later names.
func (n *normalized) accept(later normalized, c checks.Change, names map[string]string) {
	was, is := n.node(names[c.Node]), later.node(c.Node)
	switch {
	case c.Fact == "":
		n.Nodes = slices.DeleteFunc(n.Nodes, func(node lastingNode) bool { return node.Name == c.Node })
		if is != nil {
			n.Nodes = append(n.Nodes, *is)
		}
	case c.Fact == "name":
		was.Name, names[c.Node] = c.Node, c.Node
	case is == nil:
		acceptFact(n.Head.Facts, later.Head.Facts, "", c.Fact)
	default:
		acceptFact(was.Facts, is.Facts, "", c.Fact)
	}
}

// node returns the node of a name, nil if there is none.
func (n *normalized) node(name string) *lastingNode {
	i := slices.IndexFunc(n.Nodes, func(node lastingNode) bool { return node.Name == name })
	if i < 0 {
		return nil
	}
	return &n.Nodes[i]
}

// keyed are the lists whose entries have names.
var keyed = facts.Keys()

// acceptFact takes a fact from a later value of a path, and returns the value with it. It goes down
// as far as both values have what holds the fact.
func acceptFact(was, is any, path, fact string) any {
	by := keyed[path]
	before, after := entries(was, by), entries(is, by)
	if fact == "" || before == nil || after == nil {
		return is
	}
	name := "" // names may have dots: the longest one counts
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

// entries returns the fields of an object, or the entries of a list by what they have in a field.
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

// withEntry returns a list in which the entry of a name has a value, or is not there. A new entry goes
// where it is in a later list.
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
