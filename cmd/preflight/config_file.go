package main

import (
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

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"preflight/hostfile"
	"preflight/launch"
)

// mostOfFile is more than any policy takes: a file named by mistake is refused by its
// size before it is read to its end, which a device has none of.
const mostOfFile = 1 << 20

// fileFor is --config, else preflight.yaml beside the hostfile of the launch, else the
// one in the user's configuration directory, else none.
func (c *Config) fileFor(flags *pflag.FlagSet, command []string) (string, error) {
	if named, _ := flags.GetString("config"); named != "" {
		return named, nil
	}
	var hosts string
	hosts, c.unread = launchHostfile(flags, command)
	candidates := []string{besideHostfile(hosts)}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "preflight", "preflight.yaml"))
	}
	for _, file := range candidates {
		switch _, err := os.Stat(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", unreadableFile(file, err)
		}
	}
	return "", nil
}

// besideHostfile is where the policy of a hostfile lies: in the current directory where
// there is no hostfile.
func besideHostfile(hosts string) string { return filepath.Join(filepath.Dir(hosts), "preflight.yaml") }

// launchHostfile is the hostfile that a launch will read, as far as that is known before
// the configuration: that of -H or the environment, the command's own, or DeepSpeed's
// default where it is there. It is "" where hosts come from elsewhere.
func launchHostfile(flags *pflag.FlagSet, command []string) (string, error) {
	set := func(key string) string {
		if flag := flags.Lookup(key); flag != nil && flag.Changed {
			return flag.Value.String()
		}
		return os.Getenv(setting{key: key}.variable())
	}
	hosts, err := hostfile.DefaultPath, error(nil)
	switch {
	case set("hostfile") != "":
		return set("hostfile"), nil
	case flags.Lookup("hostfile") == nil, set("hosts") != "":
		return "", nil
	case len(command) > 0:
		hosts, err = launch.HostfileOf(command, launch.Surroundings{Getenv: os.Getenv, ReadFile: os.ReadFile})
	case os.Getenv("SLURM_JOB_NODELIST") != "":
		return "", nil
	}
	if _, missing := os.Stat(hosts); hosts == hostfile.DefaultPath && errors.Is(missing, fs.ErrNotExist) {
		return "", err // as DeepSpeed goes on without it
	}
	return hosts, err
}

// readFile reads the configuration file, if there is one. All that is wrong with it is
// said at once. An unknown key is an error: a typo would silently change nothing.
func readFile(file string) (stated, error) {
	if file == "" {
		return stated{}, nil
	}
	text, err := configuration(file)
	if err != nil {
		return stated{}, err
	}
	f := &policyFile{name: file, groups: map[string]string{}}
	root, err := f.document(text)
	if err != nil {
		return stated{}, err
	}
	if root.Kind != yaml.MappingNode && root.Kind != 0 && root.Tag != "!!null" {
		f.fault(root, "settings are written as \"name: value\"")
		root = &yaml.Node{}
	}
	top := f.mapping(root)
	said := f.stated(top)
	said.settings = f.settings(root, top)
	return said, f.err()
}

// inFile is what the configuration file says of one setting, and where.
type inFile struct {
	at     string // "preflight.yaml:3"
	values []string
}

// settings reads those among the keys of a configuration file.
func (f *policyFile) settings(root *yaml.Node, top map[string]*yaml.Node) map[string]inFile {
	known := map[string]setting{}
	for _, s := range settings() {
		known[s.key] = s
	}
	said := map[string]inFile{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		s, isSetting := known[strings.ToLower(key.Value)]
		switch {
		case slices.Contains(sections, key.Value), key.Tag == "!!merge":
		case !isSetting:
			near := nearest(key.Value, slices.Concat(sections, slices.Sorted(maps.Keys(known))))
			f.fault(key, "there is no setting %q%s", key.Value, cmp.Or(near, ": keys are the long names of the flags, with underscores, and "+strings.Join(sections, ", ")))
		case top[key.Value].Tag != "!!null": // else as if it were not there
			said[s.key] = inFile{f.at(key), s.relativeTo(filepath.Dir(f.name), f.values(s, top[key.Value]))}
		}
	}
	return said
}

// values are those of a setting, each held to its rule.
func (f *policyFile) values(s setting, node *yaml.Node) (all []string) {
	nodes := []*yaml.Node{node}
	if s.kind == "stringSlice" && node.Kind == yaml.SequenceNode {
		nodes = node.Content
	}
	for _, one := range nodes {
		one = behind(one)
		if one.Kind != yaml.ScalarNode || one.Tag == "!!null" {
			f.fault(one, "%s: takes %s", s.key, allowed[s.kind])
			continue
		}
		for _, text := range s.list(one.Value) {
			if err := s.wrong(text); err != nil {
				f.fail(one, fmt.Errorf("%s: %w", s.key, err))
			}
			all = append(all, text)
		}
	}
	return all
}

// configuration is what a file holds that is small enough to be one.
func configuration(file string) (string, error) {
	open, err := os.Open(file)
	if err != nil {
		return "", unreadableFile(file, err)
	}
	defer open.Close() // read only: nothing is lost
	text, err := io.ReadAll(io.LimitReader(open, mostOfFile+1))
	switch {
	case err != nil:
		return "", unreadableFile(file, err)
	case len(text) > mostOfFile:
		return "", fmt.Errorf("configuration file %s: has more than 1 MiB, so it is hardly one", file)
	}
	return string(text), nil
}

// document is the one that a YAML text holds, the zero node for none. Where it is none,
// or reads as what nobody writes, the slips in it are said, and it is read without them.
func (f *policyFile) document(text string) (*yaml.Node, error) {
	root, err := f.parse(text)
	if err == nil && !isStrange(root) {
		return root, nil
	}
	mended, again := f.parse(f.mend(text))
	switch slipped := f.err(); {
	case slipped == nil:
		return root, err
	case again != nil:
		return nil, multierror.Append(slipped, again)
	}
	return mended, nil
}

func (f *policyFile) parse(text string) (*yaml.Node, error) {
	var first, second yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(text))
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return &first, nil
	case err != nil:
		return nil, fmt.Errorf("%s is not YAML: %w", f.name, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second document begins here, and one is read: take the line with --- out", f.name, second.Line)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is not YAML: %w", f.name, err)
	}
	return behind(first.Content[0]), nil
}

// unreadableFile says in one line, with the file first, why it cannot be used.
func unreadableFile(file string, err error) error {
	return fmt.Errorf("configuration file %s: %w", file, systemReason(err))
}
