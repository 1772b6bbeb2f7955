// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"reflect"
	"slices"
	"strings"
)

// recordedFields are those that a saved node has in any case.
var recordedFields = remembered(func(field reflect.StructField) bool {
	return comparison(field) == "" || comparison(field) == "own" && lasts(field)
})

// Unrecorded are the facts that a saved node's facts lack, as JSON's maps and lists, by their
// paths or that of what holds them, with * for the name of an entry: however many entries a
// file has, there are no more of these than there are facts. What JSON leaves out where it is empty nobody can tell
// from what was not known, and is not among them: a new fact has no omitempty.
func Unrecorded(saved map[string]any) map[string]bool {
	var lacking map[string]bool
	for section, field := range fieldOf {
		unrecorded(string(section), reflect.TypeFor[Facts]().Field(field), saved[string(section)], func(path string) {
			if lacking == nil {
				lacking = map[string]bool{}
			}
			lacking[path] = true
		})
	}
	return lacking
}

// unrecorded visits the paths that are not there in the value of a field.
func unrecorded(path string, of reflect.StructField, value any, visit func(path string)) {
	kind := of.Type
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	keyed := strings.HasPrefix(of.Tag.Get("fact"), "key=")
	switch seen := value.(type) {
	case []any:
		for _, entry := range seen {
			if fields, is := entry.(map[string]any); is && keyed {
				unrecordedOf(join(path, "*"), kind.Elem(), fields, visit)
			}
		}
	case map[string]any:
		if kind.Kind() == reflect.Struct {
			unrecordedOf(path, kind, seen, visit)
		}
	}
}

func unrecordedOf(path string, kind reflect.Type, fields map[string]any, visit func(path string)) {
	for _, recorded := range recordedFields(kind) {
		field := kind.Field(recorded.index)
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch value, there := fields[recorded.name]; {
		case recorded.name == "": // an embedded struct, whose fields JSON has among the others
			unrecordedOf(path, field.Type, fields, visit)
		case there:
			unrecorded(join(path, recorded.name), field, value, visit)
		case !slices.Contains(strings.Split(options, ","), "omitempty"), field.Tag.Get("lasting") == "no": // which a normalized file never has
			visit(join(path, recorded.name))
		}
	}
}

// Records is whether the file that the node was read from, if any, has a fact.
func (n *Node) Records(path string) bool {
	for lacking := range n.Unrecorded {
		if Covers(lacking, path) {
			return false
		}
	}
	return true
}

// Covers is whether a path is one of [Unrecorded], or of what that holds.
func Covers(unrecorded, path string) bool {
	before, after, named := strings.Cut(unrecorded, "*")
	rest, begins := strings.CutPrefix(path, before)
	if !begins || !named {
		return begins && (rest == "" || rest[0] == '.')
	}
	for end := 1; end < len(rest); end++ { // names may have dots in them
		if Covers(after, rest[end:]) {
			return true
		}
	}
	return false
}
