// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/cmd/preflight/internal/usage"

	"github.com/hashicorp/go-multierror"
	"go.yaml.in/yaml/v3"
)

// file reads the sections of a configuration file, and gathers all that is wrong.
type file struct {
	name     string
	groups   map[string]string // name → node set
	problems []problem
}

// problem is one that a user has to fix, and where.
type problem struct {
	line int
	err  error
}

// entry is one of a section's list.
type entry struct {
	section string
	node    *yaml.Node
	keys    map[string]*yaml.Node
}

// at is the place of a node, "preflight.yaml:12".
func (f *file) at(node *yaml.Node) string { return fmt.Sprintf("%s:%d", f.name, node.Line) }

func (f *file) fault(node *yaml.Node, format string, args ...any) {
	f.fail(node, fmt.Errorf(format, args...))
}

// fail is fault of an error, which may have a hint.
func (f *file) fail(node *yaml.Node, err error) {
	f.problems = append(f.problems, problem{node.Line, fmt.Errorf("%s: %w", f.at(node), err)})
}

// err is all problems, from the top of the file to its end.
func (f *file) err() error {
	slices.SortStableFunc(f.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var all *multierror.Error
	for _, p := range f.problems {
		all = multierror.Append(all, p.err)
	}
	return all.ErrorOrNil()
}

// behind is what an alias stands for.
func behind(node *yaml.Node) *yaml.Node {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// mapping is the keys of one. A key that is there twice is refused.
func (f *file) mapping(node *yaml.Node) map[string]*yaml.Node {
	keys := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		switch _, twice := keys[key.Value]; {
		case key.Tag == "!!merge":
			f.fault(key, "merge keys (<<) are not supported: write the keys out")
			continue
		case twice:
			f.fault(key, "duplicate key %s", key.Value)
		}
		keys[key.Value] = behind(node.Content[i+1])
	}
	return keys
}

// inShort are the sections that may be "name: value" pairs instead of a list.
var inShort = []string{"expect", "severity", perNode}

// entries are those of a section's list that have none but known keys. Where its
// entries need no more than the first two, a section may say them in short:
// "shm.size: >=16GiB" is the fact and what it is.
func (f *file) entries(list *yaml.Node, section string, known ...string) (all []entry) {
	if list == nil || list.Tag == "!!null" {
		return nil
	}
	if list.Kind == yaml.MappingNode && slices.Contains(inShort, section) {
		return f.pairs(list, section, known[0], known[1])
	}
	if list.Kind != yaml.SequenceNode {
		f.fault(list, "%s: must be a list: each entry begins with \"- %s:\"", section, known[0])
		return nil
	}
	for _, node := range list.Content {
		node = behind(node)
		if node.Kind != yaml.MappingNode {
			f.fault(node, "%s: each entry must have keys: %s", section, strings.Join(known, ", "))
			continue
		}
		e := entry{section, node, f.mapping(node)}
		for i := 0; i < len(node.Content); i += 2 {
			if key := node.Content[i]; !slices.Contains(known, key.Value) && key.Tag != "!!merge" {
				f.fault(key, "%s: unknown key %q%s", section, key.Value, usage.Nearest(key.Value, known))
			}
		}
		all = append(all, e)
	}
	return all
}

// pairs are the entries of a mapping, by what its keys and its values are called.
func (f *file) pairs(mapping *yaml.Node, section, name, value string) (all []entry) {
	values := f.mapping(mapping)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		all = append(all, entry{section, key, map[string]*yaml.Node{name: key, value: values[key.Value]}})
	}
	return all
}

// text is a plain value as it is written: a date stays one, and 3.10 keeps its zero.
func (f *file) text(node *yaml.Node, where string) string {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		f.fault(node, "%s: must be a single value", where)
		return ""
	}
	return node.Value
}

func (f *file) optional(e entry, key string) string {
	if node := e.keys[key]; node != nil {
		return f.text(node, key)
	}
	return ""
}

// required is the value of a key that an entry must have.
func (f *file) required(e entry, key string) string {
	node := e.keys[key]
	if node == nil {
		f.fault(e.node, "%s: this entry is missing %q", e.section, key+":")
		return ""
	}
	text := f.text(node, key)
	if text == "" && node.Kind == yaml.ScalarNode && node.Tag != "!!null" {
		f.fault(node, "%s: must not be empty", key)
	}
	return text
}

// texts is a key that takes one value or a list of them.
func (f *file) texts(e entry, key string) (all []string) {
	node := e.keys[key]
	if node == nil || node.Kind != yaml.SequenceNode {
		if text := f.required(e, key); text != "" {
			return []string{text}
		}
		return nil
	}
	return f.list(node, key)
}

// list is one value or several.
func (f *file) list(node *yaml.Node, where string) (all []string) {
	if node.Kind != yaml.SequenceNode {
		return []string{f.text(node, where)}
	}
	if len(node.Content) == 0 {
		f.fault(node, "%s: must not be an empty list", where)
	}
	for _, one := range node.Content {
		all = append(all, f.text(behind(one), where))
	}
	return all
}

// choice is a key whose values are few, "" where it is not there.
func (f *file) choice(e entry, key string, allowed ...string) string {
	text := f.optional(e, key)
	if text != "" && !slices.Contains(allowed, text) {
		f.fail(e.keys[key], fmt.Errorf("%s: %w", key, usage.Among(text, allowed)))
		return ""
	}
	return text
}
