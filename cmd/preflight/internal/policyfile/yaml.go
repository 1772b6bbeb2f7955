// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/hashicorp/go-multierror"
	"go.yaml.in/yaml/v3"
)

// document is the one that a YAML text holds, the zero node for none. What people write as
// they mean it and the parser stumbles over, a comparison without quotes above all, is
// said, and read as it is meant, so that what else is wrong is said as well.
func (f *file) document(text string) (*yaml.Node, error) {
	root, err := f.parse(text)
	if err == nil {
		f.unquote(root, strings.Split(text, "\n"), false)
		return root, nil
	}
	line := 0
	fmt.Sscanf(err.Error(), "yaml: line %d:", &line) // which the parser says in no other way
	if meant := f.meant(text, line); meant != text {
		return f.document(meant)
	}
	if line > 0 || strings.HasPrefix(err.Error(), "yaml: ") {
		err = fmt.Errorf("%s is not YAML: %w", f.name, err)
	}
	return nil, multierror.Append(f.err(), err)
}

func (f *file) parse(text string) (*yaml.Node, error) {
	var first, second yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return &first, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d: a second YAML document begins here, and only one is read: remove the line with ---", f.name, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return behind(first.Content[0]), nil
}

// A value that begins with a sign of YAML's own, up to what ends it in a list in brackets
// and elsewhere; and one whose quote does not end on its line.
var (
	signInList = regexp.MustCompile("(?:^|: |- |[,[{])\\s*([>!@%*`][^,\\]}#:]*)")
	signAlone  = regexp.MustCompile(`^[^#]*`)
	yamlsOwn   = regexp.MustCompile(`^(?:!!|[|>][-+]?\s*(?:#.*)?$)`) // what it has them for
	unclosed   = regexp.MustCompile(`(?m): +("[^"\n#]*|'[^'\n#]*)(?:#[^"'\n]*)?$`)
)

// meant is a text with one mistake less: that of the line, else the first quote that is not
// closed; the text itself where neither is there.
func (f *file) meant(text string, line int) string {
	lines := strings.Split("\n"+text, "\n")
	written, at := &lines[min(line, len(lines)-1)], &yaml.Node{Line: line}
	indent, _, _ := strings.Cut(*written, strings.TrimLeft(*written, " \t"))
	if sign := signInList.FindStringSubmatchIndex(*written); sign != nil && !yamlsOwn.MatchString((*written)[sign[2]:]) {
		value := strings.TrimRight((*written)[sign[2]:sign[3]], " \t\r")
		*written = (*written)[:sign[2]] + f.inQuotes(at, value) + (*written)[sign[2]+len(value):]
	} else if strings.Contains(indent, "\t") {
		f.fault(at, "is indented by a tab: YAML needs spaces")
		*written = strings.ReplaceAll(indent, "\t", "  ") + strings.TrimLeft(*written, " \t")
	} else if open := unclosed.FindStringSubmatchIndex(text); open != nil {
		value := strings.TrimSpace(text[open[2]:open[3]])
		f.fault(&yaml.Node{Line: 1 + strings.Count(text[:open[2]], "\n")}, "unclosed quote in %s: write %s%c", value, value, value[0])
		return text[:open[2]] + value + value[:1] + text[open[3]:]
	}
	return strings.Join(lines[1:], "\n")
}

// unquote finds what YAML reads and no policy holds: a tag of its own kind, as it takes
// "!=550", and a text over several lines that has none, as it takes ">5". It is said, and
// read as it stands, so that what else is wrong is said as well.
func (f *file) unquote(node *yaml.Node, lines []string, inList bool) {
	tagged := strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!")
	if tagged || node.Style&(yaml.FoldedStyle|yaml.LiteralStyle) != 0 && node.Value == "" && !yamlsOwn.MatchString(from(lines, node)) {
		written := signAlone.FindString(from(lines, node))
		if sign := signInList.FindStringSubmatch(written); inList && sign != nil {
			written = sign[1]
		}
		node.Tag, node.Style, node.Value = "!!str", 0, cmp.Or(strings.TrimSpace(written), node.Tag)
		f.inQuotes(node, node.Value)
	}
	for _, child := range node.Content {
		f.unquote(child, lines, inList || node.Style&yaml.FlowStyle != 0)
	}
}

// from is what is written from where a node begins to the end of its line.
func from(lines []string, node *yaml.Node) string {
	line := []rune(lines[min(node.Line, len(lines))-1]) // YAML breaks lines at more than \n
	return string(line[min(node.Column-1, len(line)):])
}

// inQuotes says that a value is to be quoted, and is that.
func (f *file) inQuotes(at *yaml.Node, value string) string {
	quoted := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	if !strings.ContainsAny(quoted, `"\`) {
		quoted = `"` + value + `"`
	}
	f.fault(at, "write %s in quotes: %c at the start of a value means something else in YAML", quoted, value[0])
	return quoted
}
