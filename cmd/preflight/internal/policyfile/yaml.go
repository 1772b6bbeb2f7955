// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-multierror"
	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/cmd/preflight/internal/usage"
	"preflight/internal/text"
)

// file reads a configuration file and collects its problems.
type file struct {
	name     string
	groups   map[string]string // maps the name of a group to its node set
	problems []problem
}

// problem is an error that the user has to fix, and the line of the file that it is about.
type problem struct {
	line int
	err  error
}

// at returns the place of a node, such as "preflight.yaml:12". If the line is unknown, it returns
// only the file.
func (f *file) at(node *yaml.Node) string {
	if node.Line == 0 {
		return f.name
	}
	return fmt.Sprintf("%s:%d", f.name, node.Line)
}

// fail adds a problem, which may have a hint.
func (f *file) fail(node *yaml.Node, err error) {
	f.problems = append(f.problems, problem{node.Line, fmt.Errorf("%s: %w", f.at(node), err)})
}

func (f *file) fault(node *yaml.Node, format string, args ...any) {
	f.fail(node, fmt.Errorf(format, args...))
}

// err returns all problems, from the top of the file to its end.
func (f *file) err() error {
	slices.SortStableFunc(f.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var all *multierror.Error
	for _, p := range f.problems {
		all = multierror.Append(all, p.err)
	}
	return all.ErrorOrNil()
}

// document returns the root of a YAML text, or an empty node for an empty text. It returns nil if
// the text is not YAML, or if tidy refuses a node.
func (f *file) document(text string) *yaml.Node {
	lines := strings.Split(text, "\n")
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var first, second yaml.Node
	before := len(f.problems)
	err := decoder.Decode(&first)
	if err == nil {
		err = decoder.Decode(&second)
	}
	switch {
	case err == nil:
		f.fault(&second, "only one YAML document is allowed, and a second one begins here: remove the line with ---")
	case !errors.Is(err, io.EOF):
		return f.notYAML(lines, err)
	case first.Kind != 0:
		f.tidy(first.Content[0], lines)
		first = *first.Content[0]
	}
	if len(f.problems) > before {
		return nil
	}
	return &first
}

// sign matches a value that begins with one of YAML's own signs, inside or outside brackets.
// yamlsOwn matches a tag or block scalar that is correct YAML. unclosed matches a quote that does
// not end on its line.
var (
	sign     = regexp.MustCompile("^[^[{]*?(?:^|: |- )\\s*([>|!@%*`][^#]*?)\\s*(?:#|: |:?$)|(?:: |[,[{])\\s*([>|!@%*`][^,\\]}#:]*)")
	yamlsOwn = regexp.MustCompile(`^(?:!!|[|>][-+]?\s*(?:#.*)?$)`)
	unclosed = regexp.MustCompile(`: +("[^"\n#]*|'[^'\n#]*)(?:#[^"'\n]*)?$`)
)

// quoted reports a value that needs quotes, and returns the line with quotes around the value. It
// returns "" if the line has no such value.
func (f *file) quoted(at *yaml.Node, line string) string {
	found := sign.FindStringSubmatchIndex(line)
	if found == nil {
		return ""
	}
	from, to := max(found[2], found[4]), max(found[3], found[5])
	value := strings.TrimSpace(line[from:to])
	if yamlsOwn.MatchString(value) {
		return ""
	}
	f.fault(at, "write %q in quotes: %c at the start of a value means something else in YAML", value, value[0])
	return line[:from] + strconv.Quote(value) + line[to:]
}

// notYAML reports an error of the parser. If a value without quotes is the cause, notYAML reads the
// document again with the quotes, to find the other mistakes as well.
func (f *file) notYAML(lines []string, err error) *yaml.Node {
	message, at := strings.TrimPrefix(err.Error(), "yaml: "), &yaml.Node{}
	if _, err := fmt.Sscanf(message, "line %d:", &at.Line); err == nil {
		_, message, _ = strings.Cut(message, ": ")
	}
	n := min(max(at.Line, 1), len(lines)) - 1
	if line := f.quoted(at, lines[n]); line != "" {
		lines[n] = line
		return f.document(strings.Join(lines, "\n"))
	}
	indent, _, _ := strings.Cut(lines[n], strings.TrimLeft(lines[n], " \t"))
	open := slices.IndexFunc(lines, unclosed.MatchString)
	switch {
	case strings.Contains(indent, "\t"):
		f.fault(at, "indented with a tab: YAML needs spaces")
	case open >= 0:
		value := strings.TrimSpace(unclosed.FindStringSubmatch(lines[open])[1])
		f.fault(&yaml.Node{Line: open + 1}, "unclosed quote in %s: write %s%c", value, value, value[0])
	default:
		f.fault(at, "not YAML: %s", message)
	}
	return nil
}

// tidy replaces every alias with a copy of its anchor. It refuses duplicate and merge keys, and
// values that YAML reads differently: "!=550" is a tag in YAML, and ">5" is a block scalar without
// text.
func (f *file) tidy(node *yaml.Node, lines []string) {
	line := lines[min(node.Line, len(lines))-1] // YAML also breaks lines at other characters than \n
	emptyBlock := node.Style&(yaml.FoldedStyle|yaml.LiteralStyle) != 0 && node.Value == ""
	switch tag, own := strings.CutPrefix(node.Tag, "!"); {
	case emptyBlock && f.quoted(node, line) != "":
	case own && !strings.HasPrefix(tag, "!") && f.quoted(node, line) == "":
		f.fault(node, "unknown tag %s: remove it, or write the value in quotes", node.Tag)
	}
	keys := map[string]bool{}
	for i, child := range node.Content {
		f.tidy(child, lines)
		if child.Kind == yaml.AliasNode {
			anchor := *child.Alias
			node.Content[i] = &anchor
		}
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			switch key := node.Content[i]; {
			case key.Tag == "!!merge":
				f.fault(key, "merge keys (<<) are not supported: write the keys out")
			case keys[key.Value]:
				f.fault(key, "duplicate key %s", key.Value)
			default:
				keys[key.Value] = true
			}
		}
	}
}

// values returns the values of a mapping by key.
func values(mapping *yaml.Node) map[string]*yaml.Node {
	all := map[string]*yaml.Node{}
	for pair := range slices.Chunk(mapping.Content, 2) {
		all[pair[0].Value] = pair[1]
	}
	return all
}

// single reports whether a node is a single value. The value keeps its spelling: a date stays a
// date, and 3.10 keeps its zero.
func (f *file) single(node *yaml.Node, where, must string) bool {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		f.fault(node, "%s: must be %s", where, must)
		return false
	}
	node.Tag = "!!str"
	return true
}

// entry is an entry of a section.
type entry struct {
	*file
	node *yaml.Node
	keys map[string]*yaml.Node
}

// inShort lists the sections that may be a mapping instead of a list of entries. A pair stands for
// the first two keys of an entry: "shm.size: >=16GiB" is the fact and its value.
var inShort = []string{"expect", "severity", checks.DriftID, perNode}

// entries returns the entries of a section that have all required keys and values of the right
// kind. Known keys that end in "?" are optional.
func (f *file) entries(list *yaml.Node, section string, known ...string) (all []entry) {
	names := text.Map(known, func(key string) string { return strings.TrimSuffix(key, "?") })
	switch {
	case list == nil || list.Tag == "!!null":
	case list.Kind == yaml.MappingNode && slices.Contains(inShort, section):
		for pair := range slices.Chunk(list.Content, 2) {
			name, value := &yaml.Node{Kind: yaml.ScalarNode, Value: names[0]}, &yaml.Node{Kind: yaml.ScalarNode, Value: names[1]}
			full := &yaml.Node{Kind: yaml.MappingNode, Line: pair[0].Line, Content: []*yaml.Node{name, pair[0], value, pair[1]}}
			all = append(all, entry{f, full, values(full)})
		}
	case list.Kind == yaml.SequenceNode:
		for _, node := range list.Content {
			if node.Kind != yaml.MappingNode {
				f.fault(node, "%s: each entry must have keys: %s", section, strings.Join(names, ", "))
				continue
			}
			all = append(all, entry{f, node, values(node)})
		}
	default:
		f.fault(list, "%s: must be a list: each entry begins with \"- %s:\"", section, names[0])
	}
	return slices.DeleteFunc(all, func(e entry) bool { return !e.valid(section, known, names) })
}

// valid reports whether an entry has the required keys, and values of the right kind. It turns a
// single value into a list if the key takes a list.
func (e entry) valid(section string, known, names []string) bool {
	before := len(e.problems)
	for pair := range slices.Chunk(e.node.Content, 2) {
		name, value := pair[0].Value, pair[1]
		pair[0].Tag = "!!str"
		parts := []*yaml.Node{value}
		switch isMapping := value.Kind == yaml.MappingNode; {
		case !slices.Contains(names, name):
			e.fault(pair[0], "%s: unknown key %q%s", section, name, usage.Nearest(name, names))
			continue
		case value.Value == "" && value.Kind == yaml.ScalarNode && value.Tag != "!!null" && slices.Contains(known, name):
			e.fault(value, "%s: must not be empty", name)
		case name == "when" && !isMapping:
			e.fault(value, "when: must be a mapping, such as {nccl: \"<2.29.3\", arch: aarch64}")
			continue
		case name == "when":
			parts = value.Content
		case name == "severity" && isMapping && e.text("check") == checks.DriftID:
			parts = nil
		case name == "is", name == "nodes":
			if value.Kind != yaml.SequenceNode {
				one := *value
				*value = yaml.Node{Kind: yaml.SequenceNode, Line: value.Line, Content: []*yaml.Node{&one}}
			} else if len(value.Content) == 0 {
				e.fault(value, "%s: must not be an empty list", name)
			}
			parts = value.Content
		}
		for _, part := range parts {
			e.single(part, name, "a single value")
		}
	}
	for _, key := range known {
		if !strings.HasSuffix(key, "?") && e.keys[key] == nil {
			e.fault(e.node, "%s: this entry is missing %q", section, key+":")
		}
	}
	return len(e.problems) == before
}

// decode fills a struct whose fields have the names of the entry's keys.
func (e entry) decode(into any) {
	if err := e.node.Decode(into); err != nil {
		e.fail(e.node, err)
	}
}

// text returns the value of a key, "" if the entry does not have it.
func (e entry) text(key string) string {
	if node := e.keys[key]; node != nil {
		return node.Value
	}
	return ""
}

// choose returns the value of a key that takes only the allowed values, and reports any other
// value.
func (e entry) choose(key string, allowed ...string) checks.Severity {
	text := e.text(key)
	if err := usage.Among(text, allowed); text != "" && err != nil {
		e.fail(e.keys[key], fmt.Errorf("%s: %w", key, err))
	}
	return checks.Severity(text)
}
