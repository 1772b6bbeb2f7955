// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"preflight/checks/agreement"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/progress"
	"preflight/cmd/preflight/internal/usage"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/report/formats"
)

// rule restricts the values of a setting further than the setting's kind does.
type rule struct {
	choices []string           // all allowed values; nil if there are too many to list
	valid   func(string) error // checks one value; nil allows any value of the kind
	// isPath means that the value is a path. In the configuration file, it is relative to that
	// file.
	isPath bool
	// ofReports means that a value from the file or the environment applies only to commands that
	// write reports in every format. A flag always applies to the command that has it.
	ofReports bool
	// isLimit means that the default also applies to commands without the flag, because these
	// commands run checks, too.
	isLimit bool
}

// rules maps settings to their rules. A setting without a rule has no entry.
func rules() map[string]rule {
	return map[string]rule{
		"hostfile":          {isPath: true, valid: notEmpty("name the hostfile")},
		"hosts":             {valid: notEmpty("name some nodes, such as 'node[01-16]'")},
		"launcher":          {choices: launch.LauncherNames()},
		"accelerator":       {valid: accelerator},
		"rendezvous":        {choices: rendezvousModes},
		"via":               {choices: viaNames()},
		"in":                {valid: enterable},
		"jobid":             {valid: slurmJob},
		"callback":          {valid: callback},
		"progress":          {choices: progress.Modes},
		"master_port":       {valid: port},
		"ssh_port":          {valid: portOrDefault},
		"python":            {valid: absolute},
		"deepspeed_version": {valid: release},
		"timeout":           {valid: atLeast(time.Second)},
		"smoke":             {choices: smokeEngines},
		"smoke_time":        {valid: atLeast(10 * time.Second)}, // torch takes 5 to 15 s to load
		"rehearse_time":     {valid: atLeast(10 * time.Second)},
		"only":              {valid: check},
		"skip":              {valid: check},
		"shm_headroom":      {valid: readable(agreement.ReadSize), isLimit: true},
		"disk_free":         {valid: readable(agreement.ReadSize), isLimit: true},
		"memory_free":       {valid: share, isLimit: true},
		"clock_skew":        {valid: notBelowZero, isLimit: true},
		"open_files":        {valid: notBelowZero, isLimit: true},
		"shared":            {valid: absolutePath, isLimit: true},
		"compute_rate":      {valid: readable(agreement.ReadComputeRate)},
		"copy_rate":         {valid: readable(agreement.ReadBitRate)},
		"node_reduce_rate":  {valid: readable(agreement.ReadBitRate)},
		"reduce_rate":       {valid: readable(agreement.ReadBitRate)},
		"baseline":          {isPath: true, valid: notEmpty("name the snapshot to compare with")},
		"meet_token_file":   {isPath: true, valid: notEmpty("name the file, or leave it out for the environment's")},
		"write_env":         {isPath: true},
		"good_hosts":        {isPath: true, ofReports: true},
		"bad_hosts":         {isPath: true, ofReports: true},
		"format":            {choices: formats.Names(), ofReports: true},
		"output":            {isPath: true, valid: outputs.Known, ofReports: true},
	}
}

// setting is a value that a flag of the root command, a variable or the configuration file can set.
type setting struct {
	key  string      // "master_port"; the variable is PREFLIGHT_MASTER_PORT
	flag *pflag.Flag // the root command's flag, with the kind and the default
	rule
}

// settings returns all settings. Each has a flag of the root command.
func settings(root *cobra.Command) (all []setting) {
	rules := rules()
	root.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" && flag.Name != "version" {
			key := strings.ReplaceAll(flag.Name, "-", "_")
			all = append(all, setting{key, flag, rules[key]})
		}
	})
	return all
}

func variable(key string) string { return "PREFLIGHT_" + strings.ToUpper(key) }

// isList reports whether the setting takes several values.
func (s setting) isList() bool {
	_, is := s.flag.Value.(pflag.SliceValue)
	return is
}

// split returns the values in a text. Commas separate checks, but a comma in an output may belong
// to its path.
func (s setting) split(text string) []string {
	if s.flag.Value.Type() == "stringSlice" {
		return strings.Split(text, ",")
	}
	return []string{text}
}

// wrong returns an error if a value is not allowed.
func (s setting) wrong(text string) error {
	if err := ofKind(s.flag.Value.Type(), text); err != nil {
		return err
	}
	if s.choices != nil {
		return usage.Among(text, s.choices)
	}
	if s.valid != nil {
		return s.valid(text)
	}
	return nil
}

// check returns an error that names the place for each value that is not allowed.
func (s setting) check(place string, values []string) error {
	var wrong *multierror.Error
	for _, text := range values {
		if err := s.wrong(text); err != nil {
			wrong = multierror.Append(wrong, fmt.Errorf("%s: %w", place, err))
		}
	}
	return wrong.ErrorOrNil()
}

// put adds the values of the setting to the map that viper gets.
func (s setting) put(values []string, all map[string]any) {
	if s.isList() {
		all[s.key] = values
	} else {
		all[s.key] = values[0]
	}
}

// action runs a command with its settings and arguments.
type action func(cmd *cobra.Command, config Config, args []string) error

// configured returns a command function that reads the settings and then calls act.
func configured(act action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		config, err := readConfig(cmd, typedLaunch{})
		if err != nil {
			return err
		}
		return act(cmd, config, args)
	}
}

// launching works like [configured], for a command whose arguments are the launch.
func launching(act action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, words []string) error {
		launch, err := readTyped(words)
		if err != nil {
			return err
		}
		config, err := readConfig(cmd, launch)
		if err == nil {
			err = commandDecides(cmd, launch.command)
		}
		if err != nil {
			return err
		}
		config.typed = launch
		return act(cmd, config, launch.command)
	}
}

// readConfig reads the settings of a command from the flags, the environment and the configuration
// file, in this order of precedence. The launch after "--" may decide which configuration file
// applies.
//
// viper holds the settings. It gets only checked values, because it changes a value until it fits:
// 30 becomes 30 nanoseconds, 1.5 nodes become 1, and a comma splits a path. It also ignores a
// misspelt variable and splits keys at dots. readConfig reports all wrong values at once, each with
// its place.
func readConfig(cmd *cobra.Command, launch typedLaunch) (Config, error) {
	all := settings(cmd.Root())
	config := Config{places: map[string]string{}}
	if err := knownEnvironment(all); err != nil {
		return config, err
	}
	file, err := config.fileFor(cmd.Flags(), launch)
	if err != nil {
		return config, err
	}
	var problems *multierror.Error
	if config.Stated, err = readFile(file, all); err != nil {
		problems = multierror.Append(problems, err)
	}
	store := viper.NewWithOptions(viper.KeyDelimiter("::"))
	inFile, inEnvironment := map[string]any{}, map[string]any{}
	for _, s := range all {
		flag := cmd.Flags().Lookup(s.key)
		if flag == nil && s.isLimit {
			flag = s.flag
		}
		if flag != nil {
			problems = multierror.Append(problems, store.BindPFlag(s.key, flag))
		}
		isTyped := flag != nil && flag.Changed
		onlyFlag := s.ofReports && !writesReports(cmd)
		if value, is := config.Stated.Settings[s.key]; is && !onlyFlag && value.Values != nil {
			s.put(value.Values, inFile)
			config.places[s.key] = value.At + ": " + s.key
		}
		if text := os.Getenv(variable(s.key)); text != "" && !onlyFlag && !isTyped {
			s.put(s.split(text), inEnvironment)
			config.places[s.key] = variable(s.key)
			problems = multierror.Append(problems, s.check(variable(s.key), s.split(text)))
		}
		if isTyped {
			config.places[s.key] = spelled(flag)
			if !s.ofReports { // the command checks its formats when it writes
				problems = multierror.Append(problems, s.check(spelled(flag), flagValues(flag)))
			}
		}
	}
	problems = multierror.Append(problems, store.MergeConfigMap(inFile), store.MergeConfigMap(inEnvironment))
	if err := problems.ErrorOrNil(); err != nil {
		return config, err
	}
	return config, store.UnmarshalExact(&config)
}

// spelled returns a flag as users type it, in its short form if there is one.
func spelled(flag *pflag.Flag) string {
	if flag.Shorthand != "" {
		return "-" + flag.Shorthand
	}
	return "--" + flag.Name
}

func flagValues(flag *pflag.Flag) []string {
	if list, isList := flag.Value.(pflag.SliceValue); isList {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}

// origin returns where a setting was set: the flag, the variable, or the line of the file.
func (c Config) origin(key string) string { return cmp.Or(c.places[key], "--"+key) }

// knownEnvironment refuses unknown PREFLIGHT_ variables, because a misspelt variable would have no
// effect.
func knownEnvironment(all []setting) error {
	keys := text.Map(all, func(s setting) string { return s.key })
	for _, assignment := range os.Environ() {
		name, _, _ := strings.Cut(assignment, "=")
		key, ours := strings.CutPrefix(name, "PREFLIGHT_")
		isSetting := slices.ContainsFunc(keys, func(key string) bool { return variable(key) == name })
		if !ours || isSetting || name == tokenVariable {
			continue
		}
		near := text.Meant(key, keys)
		if near != "" {
			near = variable(near)
		}
		return usage.WithHint(fmt.Errorf("unknown setting %s%s", name, text.DidYouMean(near)), "unset %s; preflight help flags lists the names", name)
	}
	return nil
}

// relativeTo returns a value from a configuration file. The paths in it are relative to dir, the
// directory of that file. relativeTo makes them relative to the current directory.
func (s setting) relativeTo(dir, value string) string {
	switch {
	case !s.isPath || dir == ".":
		return value
	case s.key == "output":
		return outputs.Relative(value, func(path string) string { return relative(dir, path) })
	}
	return relative(dir, value)
}

// relative joins a path to a directory. It leaves "-" and "" unchanged, because they are not paths.
func relative(dir, path string) string {
	if path == "" || path == "-" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
