// SPDX-License-Identifier: Apache-2.0

// Package policyfile reads preflight.yaml: the settings and what a team states of its fleet.
//
// It refuses to guess. What is written wrong is an error that names its line, all of them at
// once, from the top of the file to its end; an unknown key is one, for a typo would
// silently change nothing. It reads YAML itself: viper knows no lines, and spells keys its
// own way.
package policyfile

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"preflight/cmd/preflight/internal/usage"
)

// mostOfFile is more than any policy takes: a file named by mistake is refused by its
// size before it is read to its end, which a device has none of.
const mostOfFile = 1 << 20

// Setting is one that the file may set.
type Setting struct {
	Key   string
	List  bool                  // it takes several values
	Takes string                // what its values are, in words: "a duration like 30s or 2m"
	Split func(string) []string // the values in one text
	Wrong func(string) error    // what is wrong with one value, nil for nothing
}

// Read reads the configuration file, if there is one.
func Read(name string, settings []Setting) (Policy, error) {
	if name == "" {
		return Policy{}, nil
	}
	text, err := small(name)
	if err != nil {
		return Policy{}, err
	}
	f := &file{name: name, groups: map[string]string{}}
	root, err := f.document(text)
	if err != nil {
		return Policy{}, err
	}
	if root.Kind != yaml.MappingNode && root.Kind != 0 && root.Tag != "!!null" {
		f.fault(root, "settings must be written as \"name: value\"")
		root = &yaml.Node{}
	}
	top := f.mapping(root)
	policy := f.policy(top)
	policy.Settings = f.settings(root, top, settings)
	return policy, f.err()
}

func (f *file) settings(root *yaml.Node, top map[string]*yaml.Node, all []Setting) map[string]Value {
	keys := slices.Clone(sections)
	for _, s := range all {
		keys = append(keys, s.Key)
	}
	values := map[string]Value{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		at := slices.IndexFunc(all, func(s Setting) bool { return s.Key == strings.ToLower(key.Value) })
		switch {
		case slices.Contains(sections, key.Value), key.Tag == "!!merge", key.Value == perNode && top[key.Value].Kind != yaml.ScalarNode:
		case at < 0:
			near := usage.Nearest(key.Value, keys)
			f.fault(key, "unknown setting %q%s", key.Value, cmp.Or(near, ": keys are the long names of the flags, with underscores, and "+strings.Join(sections, ", ")))
		case top[key.Value].Tag != "!!null": // else as if it were not there
			values[all[at].Key] = Value{f.at(key), f.values(all[at], top[key.Value])}
		}
	}
	return values
}

func (f *file) values(s Setting, node *yaml.Node) (all []string) {
	nodes := []*yaml.Node{node}
	if s.List && node.Kind == yaml.SequenceNode {
		nodes = node.Content
	}
	for _, one := range nodes {
		one = behind(one)
		if one.Kind != yaml.ScalarNode || one.Tag == "!!null" {
			f.fault(one, "%s: must be %s", s.Key, s.Takes)
			continue
		}
		for _, text := range s.Split(one.Value) {
			if err := s.Wrong(text); err != nil {
				f.fail(one, fmt.Errorf("%s: %w", s.Key, err))
			}
			all = append(all, text)
		}
	}
	return all
}

// small is what a file holds that is small enough to be a configuration.
func small(name string) (string, error) {
	open, err := os.Open(name)
	if err != nil {
		return "", Unreadable(name, err)
	}
	defer open.Close() // read only: nothing is lost
	text, err := io.ReadAll(io.LimitReader(open, mostOfFile+1))
	switch {
	case err != nil:
		return "", Unreadable(name, err)
	case len(text) > mostOfFile:
		return "", fmt.Errorf("configuration file %s: is larger than 1 MiB", name)
	}
	return string(text), nil
}

// Unreadable says in one line, with the file first, why it cannot be used.
func Unreadable(name string, err error) error {
	return fmt.Errorf("configuration file %s: %w", name, usage.Reason(err))
}
