// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/policyfile"
	"preflight/cmd/preflight/internal/progress"
	"preflight/cmd/preflight/internal/usage"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/report/formats"
)

// rule is what the values of a setting are held to beyond their kind.
type rule struct {
	choices []string           // all there are, nil where they are many
	valid   func(string) error // of one value, nil for anything of the kind
	// isPath makes what the configuration file says relative to that file.
	isPath bool
	// ofReports: the file and the environment say it for the commands that write a
	// report in every format. A flag is of its command, which says what that writes.
	ofReports bool
}

// rules are those of all settings that have any.
func rules() map[string]rule {
	return map[string]rule{
		"hostfile":          {isPath: true, valid: given("name the hostfile")},
		"hosts":             {valid: given("name some hosts, as in 'node[01-16]'")},
		"launcher":          {choices: launch.LauncherNames()},
		"accelerator":       {valid: accelerator},
		"rendezvous":        {choices: rendezvousModes},
		"via":               {choices: viaNames()},
		"in":                {valid: enterable},
		"jobid":             {valid: slurmJob},
		"progress":          {choices: progress.Modes},
		"master_port":       {valid: port},
		"ssh_port":          {valid: portOrDefault},
		"python":            {valid: absolute},
		"deepspeed_version": {valid: release},
		"timeout":           {valid: enoughTime},
		"smoke":             {choices: smokeEngines},
		"smoke_time":        {valid: smokeTime},
		"only":              {valid: check},
		"skip":              {valid: check},
		"shm_headroom":      {valid: size},
		"disk_free":         {valid: size},
		"memory_free":       {valid: share},
		"clock_skew":        {valid: notBelowZero},
		"open_files":        {valid: notBelowZero},
		"compute_rate":      {valid: computeRate},
		"copy_rate":         {valid: bitRate},
		"node_reduce_rate":  {valid: bitRate},
		"reduce_rate":       {valid: bitRate},
		"baseline":          {isPath: true, valid: given("name the snapshot to compare with")},
		"meet_token_file":   {isPath: true, valid: given("name the file, or leave it out for the environment's")},
		"write_env":         {isPath: true},
		"good_hosts":        {isPath: true, ofReports: true},
		"bad_hosts":         {isPath: true, ofReports: true},
		"format":            {choices: formats.Names(), ofReports: true},
		"output":            {isPath: true, valid: outputs.Known, ofReports: true},
	}
}

// setting is one thing that a user may set.
type setting struct {
	key  string // "master_port", which the environment calls PREFLIGHT_MASTER_PORT
	kind string // of its values: see allowed
	rule
}

// settings are the fields of [Config] that a user may set, in their order.
func settings() (all []setting) {
	rules := rules()
	for field := range reflect.TypeFor[Config]().Fields() {
		if key := field.Tag.Get("mapstructure"); key != "-" && field.IsExported() {
			all = append(all, setting{key, kindOf(field.Type), rules[key]})
		}
	}
	return all
}

func (s setting) variable() string { return "PREFLIGHT_" + strings.ToUpper(s.key) }

// list is the values in a text. Commas part checks; of outputs they may belong to a path.
func (s setting) list(text string) []string {
	if s.kind == "stringSlice" && !s.ofReports {
		return strings.Split(text, ",")
	}
	return []string{text}
}

// wrong is what is wrong with one value, nil for nothing.
func (s setting) wrong(text string) error {
	if err := ofKind(s.kind, text); err != nil {
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

// action is what a command does with its settings and its arguments.
type action func(cmd *cobra.Command, config Config, args []string) error

// configured has a command read its settings first.
func configured(act action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		config, err := readConfig(cmd, asTyped{})
		if err != nil {
			return err
		}
		return act(cmd, config, args)
	}
}

// launching is configured of a command whose arguments are the launch.
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

// readConfig merges the configuration file, the environment and the flags of a command.
// Behind its "--" stands the launch, which may say where the file lies. Later wins, and
// every value is held to its setting's rule, wherever it was set: the errors say where,
// all at once.
//
// Viper only decodes what is merged here. Bound to the flags, the file and the environment
// it would lose where a value was set, which every error names, bend values until they fit
// (12 to 12 nanoseconds), take any PREFLIGHT_ variable that is misspelt for none, and split
// lists at commas that belong to paths.
func readConfig(cmd *cobra.Command, launch asTyped) (Config, error) {
	config := thresholds()
	config.places = map[string]string{}
	if err := knownEnvironment(); err != nil {
		return config, err
	}
	file, err := config.fileFor(cmd.Flags(), launch)
	if err != nil {
		return config, err
	}
	var problems *multierror.Error
	if config.Stated, err = readFile(file); err != nil {
		problems = multierror.Append(problems, err)
	}
	v := viper.New()
	for _, s := range settings() {
		place, values, err := s.set(cmd, config.Stated.Settings[s.key])
		if err != nil {
			problems = multierror.Append(problems, err)
			continue
		}
		if place != "" {
			config.places[s.key] = place
		}
		switch {
		case values == nil:
		case s.kind == "stringSlice":
			v.Set(s.key, values)
		default:
			v.Set(s.key, values[0])
		}
	}
	if err := problems.ErrorOrNil(); err != nil { // a value of the file may be of no kind that fits
		return config, err
	}
	return config, v.UnmarshalExact(&config)
}

// set is where a setting was set last, as a person knows the place, and its values there:
// "" with a flag's default, and nil where nothing says any.
func (s setting) set(cmd *cobra.Command, inFile policyfile.Value) (place string, values []string, err error) {
	flag := cmd.Flags().Lookup(s.key)
	elsewhere := !s.ofReports || writesReports(cmd) // than in a flag it counts
	switch text := os.Getenv(s.variable()); {
	case flag != nil && flag.Changed:
		place, values = spelled(flag), flagValues(flag)
		if s.ofReports {
			return place, values, nil // held to the formats of the command when those are known
		}
	case text != "" && elsewhere:
		place, values = s.variable(), s.list(text)
	case inFile.Values != nil && elsewhere:
		return inFile.At + ": " + s.key, inFile.Values, nil // held to the rule when the file was read
	case flag != nil:
		return "", flagValues(flag), nil
	}
	var wrong *multierror.Error
	for _, text := range values {
		if err := s.wrong(text); err != nil {
			wrong = multierror.Append(wrong, fmt.Errorf("%s: %w", place, err))
		}
	}
	return place, values, wrong.ErrorOrNil()
}

// spelled is a flag as it is typed: the short way where there is one.
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

// origin is what a person set a setting by: the flag, the variable, or the line of the file.
func (c Config) origin(key string) string { return cmp.Or(c.places[key], "--"+key) }

// knownEnvironment refuses PREFLIGHT_ variables nobody reads: a typo there
// would silently change nothing.
func knownEnvironment() error {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		ours := func(s setting) bool { return s.variable() == name }
		if strings.HasPrefix(name, "PREFLIGHT_") && name != tokenVariable && !slices.ContainsFunc(settings(), ours) {
			return usage.WithHint(fmt.Errorf("%s is not a setting of preflight%s", name, variableMeant(name)), "unset %s, or see preflight --help for the names", name)
		}
	}
	return nil
}

// variableMeant asks for the variable that was likely meant.
func variableMeant(name string) string {
	var keys []string
	for _, s := range settings() {
		keys = append(keys, s.key)
	}
	key := text.Meant(strings.TrimPrefix(name, "PREFLIGHT_"), keys)
	if key == "" {
		return ""
	}
	return text.DidYouMean(setting{key: key}.variable())
}

// relativeTo is where paths of a file in a directory lead. An output keeps its format,
// and what was a path stays one.
func (s setting) relativeTo(dir string, values []string) []string {
	if !s.isPath || dir == "." {
		return values
	}
	var moved []string
	for _, value := range values {
		if s.key != "output" {
			moved = append(moved, relative(dir, value))
			continue
		}
		moved = append(moved, outputs.Relative(value, func(path string) string { return relative(dir, path) })...)
	}
	return moved
}

// relative is a path as seen from a directory; - is no path, and "" none either.
func relative(dir, path string) string {
	if path == "" || path == "-" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
