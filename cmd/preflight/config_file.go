package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// mostOfFile is more than any policy takes: a file named by mistake is refused by its
// size before it is read to its end, which a device has none of.
const mostOfFile = 1 << 20

// configFile is --config, else preflight.yaml beside the hostfile, else the
// one in the user's configuration directory, else none.
func configFile(flags *pflag.FlagSet) (string, error) {
	if named, _ := flags.GetString("config"); named != "" {
		return named, nil
	}
	hostfile, _ := flags.GetString("hostfile")
	candidates := []string{filepath.Join(filepath.Dir(hostfile), "preflight.yaml")}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "preflight", "preflight.yaml"))
	}
	for _, file := range candidates {
		switch _, err := os.Stat(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", fmt.Errorf("configuration: %w", err)
		}
	}
	return "", nil
}

// readFile adds the configuration file, if there is one: its settings to viper, and
// apart what it states of nodes and checks. An unknown key is an error: a typo would
// silently change nothing. Keys are the names of settings and the kinds of their values.
func readFile(v *viper.Viper, file string, keys map[string]string) (stated, error) {
	if file == "" {
		return stated{}, nil
	}
	root, err := document(file)
	if err != nil {
		return stated{}, err
	}
	f := &policyFile{name: file, groups: map[string]string{}}
	if root.Kind != yaml.MappingNode && root.Kind != 0 && root.Tag != "!!null" {
		f.fault(root, "settings are written as \"name: value\"")
		root = &yaml.Node{}
	}
	top := f.mapping(root)
	settings, places := map[string]any{}, map[string]string{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		switch name := strings.ToLower(key.Value); {
		case slices.Contains(sections, key.Value), key.Tag == "!!merge":
		case keys[name] == "":
			near := nearest(key.Value, slices.Concat(sections, slices.Sorted(maps.Keys(keys))))
			f.fault(key, "there is no setting %q%s", key.Value, cmp.Or(near, ": keys are the long names of the flags, with underscores, and "+strings.Join(sections, ", ")))
		default:
			settings[name] = f.setting(name, keys[name], top[key.Value])
			places[name] = f.at(key)
		}
	}
	said := f.stated(top)
	said.settings = places
	return said, errors.Join(f.err(), v.MergeConfigMap(settings))
}

// setting is the value of one.
func (f *policyFile) setting(name, kind string, node *yaml.Node) any {
	var value any
	switch err := node.Decode(&value); {
	case err != nil:
		f.fault(node, "%s: %v", name, err)
	case value == nil: // as if it were not there
	case !readable(kind, value):
		f.fault(node, "%v", wrongValue(name, kind, value))
	case choices[name] != nil && !slices.Contains(choices[name], fmt.Sprint(value)):
		f.fault(node, "%s: %q is none of %s", name, fmt.Sprint(value), strings.Join(choices[name], ", "))
	}
	return value
}

// document is the one that a YAML file holds, the zero node for none.
func document(file string) (*yaml.Node, error) {
	open, err := os.Open(file)
	if err != nil {
		return nil, unreadableFile(file, err)
	}
	defer open.Close() // read only: nothing is lost
	text, err := io.ReadAll(io.LimitReader(open, mostOfFile+1))
	switch {
	case err != nil:
		return nil, unreadableFile(file, err)
	case len(text) > mostOfFile:
		return nil, fmt.Errorf("configuration file %s: has more than 1 MiB, so it is hardly one", file)
	}
	var first, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return &first, nil
	case err != nil:
		return nil, fmt.Errorf("%s is not YAML: %w", file, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second document begins here, and one is read: take the line with --- out", file, second.Line)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is not YAML: %w", file, err)
	}
	return behind(first.Content[0]), nil
}

// unreadableFile says in one line, with the file first, why it cannot be used.
func unreadableFile(file string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("configuration file %s: %w", file, err)
}
