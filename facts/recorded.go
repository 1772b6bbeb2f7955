// SPDX-License-Identifier: Apache-2.0

package facts

import "strings"

// Unrecorded returns the facts that are missing in a saved node, with "*" for the names of entries.
// If an object that would hold facts is missing, Unrecorded returns the object.
//
// The result is never larger than the number of facts, however many entries the file has.
// Unrecorded leaves out facts that JSON omits when they are empty; new facts have no omitempty.
func Unrecorded(saved map[string]any) map[string]bool {
	var lacking map[string]bool
	_, fields := plan()
	for _, f := range fields {
		if !f.recorded || f.optional || f.name == "*" {
			continue
		}
		eachHolder(saved, f.names, func(holder map[string]any, name string) {
			if _, there := holder[name]; there {
				return
			}
			if lacking == nil {
				lacking = map[string]bool{}
			}
			lacking[f.Path] = true
		})
	}
	return lacking
}

// eachHolder visits the JSON objects that contain the last name of a path, or would contain it.
func eachHolder(value any, path []string, visit func(holder map[string]any, name string)) {
	name, below := path[0], path[1:]
	switch value := value.(type) {
	case []any:
		for i := 0; name == "*" && len(below) > 0 && i < len(value); i++ {
			eachHolder(value[i], below, visit)
		}
	case map[string]any:
		switch {
		case len(below) == 0:
			visit(value, name)
		case name == "*":
			for _, entry := range value {
				eachHolder(entry, below, visit)
			}
		default:
			eachHolder(value[name], below, visit)
		}
	}
}

// Records reports whether the file from which the node was read contains a fact. It returns true if
// the node was not read from a file.
func (n *Node) Records(path string) bool {
	for lacking := range n.Unrecorded {
		if Covers(lacking, path) {
			return false
		}
	}
	return true
}

// Covers reports whether a path is one of the paths that [Unrecorded] returns, or is below one of
// them.
func Covers(unrecorded, path string) bool {
	return matches(unrecorded, path) || matches(unrecorded+".*", path)
}

// matches reports whether a path matches a pattern. In the pattern "*" stands for names, which may
// contain dots.
func matches(pattern, path string) bool {
	before, after, named := strings.Cut(pattern, "*")
	rest, begins := strings.CutPrefix(path, before)
	if !begins || !named {
		return begins && rest == ""
	}
	for end := 1; end <= len(rest); end++ {
		if matches(after, rest[end:]) {
			return true
		}
	}
	return false
}
