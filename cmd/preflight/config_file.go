package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"preflight/cmd/preflight/internal/policyfile"
	"preflight/hostfile"
	"preflight/launch"
)

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
			return "", policyfile.Unreadable(file, err)
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

// readFile reads the configuration file, if there is one. Paths in it are of its directory.
func readFile(name string) (policyfile.Policy, error) {
	var all []policyfile.Setting
	for _, s := range settings() {
		all = append(all, policyfile.Setting{Key: s.key, List: s.kind == "stringSlice", Takes: allowed[s.kind], Split: s.list, Wrong: s.wrong})
	}
	policy, err := policyfile.Read(name, all)
	for _, s := range settings() {
		if value, there := policy.Settings[s.key]; there {
			value.Values = s.relativeTo(filepath.Dir(name), value.Values)
			policy.Settings[s.key] = value
		}
	}
	return policy, err
}
