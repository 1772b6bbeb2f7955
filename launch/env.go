// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/secret"
)

const (
	// wholeEnvironment is the source of variables that reach the nodes under --launcher slurm only
	// because srun passes on the whole environment unchanged (multinode_runner.py, SlurmRunner).
	wholeEnvironment = "srun --export=ALL"
	// systemConf is the file that NCCL reads last, regardless of NCCL_CONF_FILE.
	systemConf = "/etc/nccl.conf"
)

// exporter decides which variables reach the nodes, and in what form.
type exporter struct {
	Launcher    string // a name of [Launchers]
	Accelerator string // accelerator of the launching machine, cuda or cpu
	WorkDir     string
	DeepSpeed   string // DeepSpeed's version, "" for the newest
	// Accelerate means that accelerate starts deepspeed and therefore exports its whole
	// environment.
	Accelerate bool
}

func (x exporter) own(make func(exporter) []string) []facts.Setting {
	if make == nil {
		return nil
	}
	var settings []facts.Setting
	for _, pair := range make(x) {
		name, value, _ := strings.Cut(pair, "=")
		settings = append(settings, facts.Setting{Name: name, Value: value, Source: "launcher " + x.Launcher})
	}
	return settings
}

// exportRules lists the variables of the launching machine that DeepSpeed exports. Each rule has
// the prefixes of names and the releases to which it applies: from since up to but not including
// until.
//
// Source: deepspeed/launcher/runner.py, EXPORT_ENVS, nebula/constants.py and
// accelerator/cuda_accelerator.py, export_envs, v0.6.0 to 0.19.8.
var exportRules = []struct {
	prefixes     []string
	since, until string
}{
	{prefixes: []string{"PYTHON", "MV2", "UCX"}},
	{prefixes: []string{"MLFLOW"}, since: "0.7.5"},
	{prefixes: []string{"NCCL"}, until: "0.12.6"}, // in later releases the accelerator exports these
	// Variables of Microsoft's Nebula. Facts do not contain most of their values, because some are
	// credentials.
	{prefixes: []string{"DLTS_JOB_ID", "DLTS_NUM_WORKER", "NEBULA_PERSISTENT_STORAGE_PATH", "NEBULA_PERSISTENT_TIME_INTERVAL",
		"AML_RUN_ID", "AZUREML_RUN_TOKEN", "AZUREML_WORKSPACE_SCOPE", "AZUREML_EXPERIMENT_SCOPE", "AZUREML_RUN_HISTORY_SERVICE_ENDPOINT",
		"AZUREML_RUN_ID", "NEBULA_MEMORY_BUFFER_SIZE", "AZUREML_PARAMETER_ITPJOB_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX",
		"MASTER_HOST", "LOCAL_HOST", "AZUREML_BLOB_ACCOUNT_NAME", "AZUREML_BLOB_ACCOUNT_KEY"}, since: "0.7.0", until: "0.19.7"},
}

// excludedOnAISC lists variables that DeepSpeed does not export if AISC_JOB_NAME is set, because
// such nodes have their own values (runner.py, EXCLUDE_ENVS, since v0.9.3).
var excludedOnAISC = []string{"NCCL_IB_HCA", "UCX_NET_DEVICES"}

// Settings returns the variables that every rank gets, sorted by name, with the values that arrive.
// There are five sources, and later sources override earlier ones: the launcher's own variables,
// the launching machine's variables (head may be nil), PYTHONPATH, the files in order, and what
// accelerate adds to the last file. Files may export variables of any name. A value that was not
// collected is "…".
//
// The notes describe values that change on the way. A shell or pdsh interprets some characters, and
// launchers without a shell pass on quotes.
//
// Source: runner.py, main, and multinode_runner.py, add_export.
func (x exporter) Settings(head *facts.Env, files []facts.EnvFile) ([]facts.Setting, []hostfile.Note) {
	all := map[string]facts.Setting{}
	by := launcherNamed(x.Launcher)
	if by.Environment == EnvironmentWhole && head != nil {
		for _, s := range head.Vars {
			all[s.Name] = facts.Setting{Name: s.Name, Value: s.Value, Source: wholeEnvironment}
		}
	}
	for _, s := range x.exported(head, files) {
		if s.Name = withoutExport(s.Name); identifier.MatchString(s.Name) {
			all[s.Name] = s
		}
	}
	for _, s := range x.own(by.overrides) {
		all[s.Name] = s
	}
	return x.delivered(all)
}

// exported returns the exports as the runner passes them to its launcher, with values stripped but
// not quoted. They keep the order in which they first appear: the launcher's own, the environment,
// the files, accelerate's. DeepSpeed keeps the order of the environment. Facts have the environment
// sorted by name, and exported keeps that order instead.
//
// The result does not contain lines of the files that end the launch.
func (x exporter) exported(head *facts.Env, files []facts.EnvFile) []facts.Setting {
	by := launcherNamed(x.Launcher)
	if hostfile.Before(x.DeepSpeed, by.exportsSince) {
		return nil
	}
	var all []facts.Setting
	set := func(s facts.Setting) {
		s.Value = strings.TrimSpace(s.Value)
		if i := slices.IndexFunc(all, func(known facts.Setting) bool { return known.Name == s.Name }); i >= 0 {
			all[i] = s
			return
		}
		all = append(all, s)
	}
	for _, s := range x.own(by.presets) {
		set(s)
	}
	for _, s := range x.environment(head) {
		if x.exports(s.Name) {
			set(s)
		}
	}
	set(facts.Setting{Name: "PYTHONPATH", Value: pythonPath(x.WorkDir, head), Source: OwnPath})
	for _, file := range AppliedEnvFiles(files, x.DeepSpeed) {
		for _, line := range file.Lines {
			if name, value, found := strings.Cut(line, "="); found {
				set(facts.Setting{Name: strings.TrimSpace(name), Value: value, Source: file.Path})
			}
		}
	}
	if x.Accelerate {
		for _, s := range accelerateExports(head) {
			set(s)
		}
	}
	return all
}

// environment returns the launching machine's variables sorted by name, without those that
// DeepSpeed does not export on AISC.
func (x exporter) environment(head *facts.Env) []facts.Setting {
	if head == nil {
		return nil
	}
	var all []facts.Setting
	for _, s := range head.Vars {
		all = append(all, facts.Setting{Name: s.Name, Value: s.Value, Source: "environment"})
	}
	for _, name := range head.Withheld {
		all = append(all, facts.Setting{Name: name, Value: secret.Hidden, Source: "environment"})
	}
	onAISC := slices.ContainsFunc(all, func(s facts.Setting) bool { return s.Name == "AISC_JOB_NAME" })
	if onAISC && !hostfile.Before(x.DeepSpeed, "0.9.3") {
		all = slices.DeleteFunc(all, func(s facts.Setting) bool { return slices.Contains(excludedOnAISC, s.Name) })
	}
	slices.SortFunc(all, byName)
	return all
}

// OwnPath is the source of the PYTHONPATH that DeepSpeed exports.
const OwnPath = "deepspeed"

// ByCommand is the source of a variable that is set for a command typed on every node.
const ByCommand = "the command"

// safePath is the variable with which Python does not search the directory of the script.
const safePath = "PYTHONSAFEPATH"

// setByCommand returns the variables that are set for the command on every node and that its ranks
// inherit. A safePath of this shell counts, because the ranks of this machine inherit it.
func (r runner) setByCommand() (all []facts.Setting) {
	if r.env == nil {
		return nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(r.Set))) {
		value, isCollected := Lookup(r.env, name)
		if !isCollected {
			value = secret.Hidden
		}
		all = append(all, facts.Setting{Name: name, Value: value, Source: ByCommand})
	}
	if value, _ := Lookup(r.env, safePath); value != "" && !slices.Contains(r.Set, safePath) {
		all = append(all, facts.Setting{Name: safePath, Value: value, Source: "environment"})
	}
	return all
}

func byName(a, b facts.Setting) int { return cmp.Compare(a.Name, b.Name) }

func (x exporter) exports(name string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	for _, e := range exportRules {
		if slices.ContainsFunc(e.prefixes, begins) && hostfile.Within(x.DeepSpeed, e.since, e.until) {
			return true
		}
	}
	return begins("NCCL") && x.Accelerator == "cuda"
}

// AppliedEnvFiles returns the files that a release reads. files are those in the home directory and
// in the working directory. Before v0.10.1 DS_ENV_FILE had no effect. From v0.10.1 to v0.13.0 a
// file in the working directory replaced the file in the home directory.
//
// Source: runner.py, main and DEEPSPEED_ENVIRONMENT_NAME.
func AppliedEnvFiles(files []facts.EnvFile, deepspeed string) []facts.EnvFile {
	switch {
	case hostfile.Before(deepspeed, "0.10.1"):
		return slices.DeleteFunc(slices.Clone(files), func(file facts.EnvFile) bool { return path.Base(file.Path) != ".deepspeed_env" })
	case hostfile.Before(deepspeed, "0.13.1") && len(files) > 1:
		return files[len(files)-1:]
	}
	return files
}

// lastFile returns the file whose lines override those of all other files, "" for
// ~/.deepspeed_env. The file need not exist.
func (x exporter) lastFile(head *facts.Env, files []facts.EnvFile) string {
	name := ""
	if head != nil && !hostfile.Before(x.DeepSpeed, "0.10.1") {
		name, _ = Lookup(head, "DS_ENV_FILE")
	}
	applied := AppliedEnvFiles(files, x.DeepSpeed)
	switch last := len(applied) - 1; {
	case last >= 0 && (name != "" || path.Dir(applied[last].Path) == x.WorkDir):
		return applied[last].Path
	case name == "" || strings.HasPrefix(name, "~/"):
		return ""
	case path.IsAbs(name):
		return name
	}
	return path.Join(x.WorkDir, name)
}

func (x exporter) delivered(all map[string]facts.Setting) ([]facts.Setting, []hostfile.Note) {
	var settings []facts.Setting
	var notes []hostfile.Note
	shell := launcherNamed(x.Launcher).Shell
	for _, s := range all {
		word := x.quoted(s.Value)
		switch {
		case s.Source == wholeEnvironment, s.Value == secret.Hidden:
		case shell && !survivesShell(s.Value, word):
			notes = append(notes, hostfile.Note{ID: "export-reread", Message: fmt.Sprintf(
				"%s=%s (%s) is read again by pdsh and the shell on every node, which replace %%h, %%u, %%n, $ and ` and drop quotes: the ranks get a different value; remove those characters", s.Name, s.Value, s.Source)})
		case !shell && word != s.Value:
			notes = append(notes, hostfile.Note{ID: "export-keeps-quotes", Message: fmt.Sprintf(
				`%s=%s (%s) arrives as %s, including the quotes, because DeepSpeed quotes for a shell but --launcher %s uses none: set it in the nodes' own environment or /etc/nccl.conf`, s.Name, s.Value, s.Source, word, x.Launcher)})
			s.Value = word
		}
		settings = append(settings, s)
	}
	slices.SortFunc(settings, byName)
	slices.SortFunc(notes, func(a, b hostfile.Note) int { return cmp.Compare(a.Message, b.Message) })
	return settings, notes
}

// quoted returns a value as it appears in the command. Since v0.16.5 DeepSpeed puts the value in
// double quotes if it contains anything but word characters and @%+=:,./-. From v0.15.2 it always
// used double quotes. From v0.6.2 it did not change the value, and before v0.6.2 it quoted the
// value for a shell. An unknown value is treated as one that needs no quotes.
//
// Source: multinode_runner.py, add_export and get_cmd.
func (x exporter) quoted(value string) string {
	special := value != secret.Hidden && strings.ContainsFunc(value, func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsNumber(r) || strings.ContainsRune("_@%+=:,./-", r))
	})
	ascii := !strings.ContainsFunc(value, func(r rune) bool { return r > unicode.MaxASCII })
	switch {
	case hostfile.Before(x.DeepSpeed, "0.6.2") && (special || !ascii || value == ""):
		return "'" + strings.ReplaceAll(value, "'", `'"'"'`) + "'"
	case hostfile.Before(x.DeepSpeed, "0.15.2"):
		return value
	case hostfile.Before(x.DeepSpeed, "0.16.5"), special:
		return `"` + value + `"`
	}
	return value
}

// ParseEnvFile reads a .deepspeed_env as DeepSpeed does: every line is NAME=VALUE, split at the
// first "=" and stripped on both sides. Comments and blank lines are not allowed. ParseEnvFile
// returns the settings that it can read. Its errors are about lines that end the launch or that do
// something other than they seem to do.
//
// Source: runner.py, main, v0.6.0 and later. The effect of a line in the remote shell was tried
// with bash 5.2 and dash 0.5.12.
func ParseEnvFile(file facts.EnvFile) ([]facts.Setting, []hostfile.LineError) {
	var settings []facts.Setting
	var problems []hostfile.LineError
	problem := func(line int, deepspeed, message string) {
		problems = append(problems, hostfile.LineError{File: file.Path, Line: line, Message: message, DeepSpeed: deepspeed})
	}
	if file.Error != "" {
		problem(0, file.Error, "cannot be read ("+file.Error+"), and DeepSpeed fails: make it readable, or move it away")
	}
	for i, line := range file.Lines {
		name, value, found := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		bare := withoutExport(name)
		switch {
		case !found:
			problem(i+1, "ValueError: not enough values to unpack (expected 2, got 1)",
				"every line must be NAME=VALUE; blank lines and comments end the launch: remove the line")
		case strings.HasPrefix(name, "#"):
			problem(i+1, "", "is not treated as a comment: it comments out the rest of the remote command, so the nodes run nothing and report success; remove the line")
		case !identifier.MatchString(bare):
			problem(i+1, "", fmt.Sprintf("%q is not a variable name: bash skips it, dash ends the whole command; correct the line", name))
		default:
			settings = append(settings, facts.Setting{Name: bare, Value: strings.TrimSpace(value), Source: file.Path})
		}
	}
	return settings, problems
}

// withoutExport returns the name of the variable that a line "export NAME=VALUE" of a file sets.
// With pdsh the line becomes "export export NAME=VALUE;", and the extra word is harmless.
func withoutExport(name string) string {
	return strings.TrimSpace(strings.TrimPrefix(name, "export "))
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Env holds variables from several sources with priorities. It copies no variables, because there
// is one Env for every node and most variables are never read.
type Env struct {
	over, session, files []facts.Setting
	instead              string // the file that NCCL_CONF_FILE names, which replaces the one in the home directory
	isNamed              bool
}

// RankEnv returns the variables that a rank on a node sees, limited to the names that preflight
// collects. The launcher's exports override the node's own session, except those that the node's
// login shell lost. NCCL's configuration files come last, because they never override the
// environment (NVIDIA/nccl 2.30, misc/param.cc, initEnv).
//
// An exported NCCL_CONF_FILE replaces the file in the node's home directory. The content of the
// named file is only known if the node itself read that file.
func RankEnv(node *facts.Env, exports []facts.Setting) Env {
	e := Env{over: exports}
	if node != nil && node.ExportTrial != nil && len(node.ExportTrial.Lost) > 0 {
		e.over = slices.DeleteFunc(slices.Clone(exports), func(s facts.Setting) bool { return slices.Contains(node.ExportTrial.Lost, s.Name) })
	}
	if node != nil {
		e.session = node.Vars
		confFile, isNamed := e.Lookup("NCCL_CONF_FILE")
		e.files, e.instead, e.isNamed = node.NCCL, confFile.Value, isNamed
	}
	return e
}

// Lookup returns a variable by its name. If a name occurs several times, the last entry of an
// environment counts, but the first entry of the configuration files.
func (e Env) Lookup(name string) (setting facts.Setting, set bool) {
	for _, from := range [][]facts.Setting{e.over, e.session} {
		for i := len(from) - 1; i >= 0; i-- {
			if from[i].Name == name {
				return from[i], true
			}
		}
	}
	for i := range e.files {
		if s := &e.files[i]; s.Name == name && e.reads(s) {
			return *s, true
		}
	}
	return facts.Setting{}, false
}

func (e Env) reads(s *facts.Setting) bool {
	replaced := e.isNamed && s.Source != e.instead && s.Source != systemConf
	return !replaced && s.Source != "environment"
}

// Exports reports whether the launcher exports a variable.
func (e Env) Exports(name string) bool {
	return slices.ContainsFunc(e.over, func(s facts.Setting) bool { return s.Name == name })
}

// Get returns a variable, with an empty value if it is not set.
func (e Env) Get(name string) facts.Setting {
	setting, _ := e.Lookup(name)
	return setting
}

// All returns the variables, sorted by name.
func (e Env) All() []facts.Setting {
	all := slices.Concat(e.over, e.session, e.files)
	slices.SortStableFunc(all, byName)
	all = slices.CompactFunc(all, func(a, b facts.Setting) bool { return a.Name == b.Name })
	kept := all[:0]
	for _, s := range all {
		if seen, set := e.Lookup(s.Name); set {
			kept = append(kept, seen)
		}
	}
	return kept
}

// byAccelerate is the source of variables that reach the nodes only because accelerate starts
// deepspeed and writes them to .deepspeed_env.
const byAccelerate = "accelerate, by .deepspeed_env"

// inherited returns the environment that deepspeed gets from the program that starts it. If
// accelerate starts deepspeed, PYTHONPATH ends with the working directory. The variables that
// accelerate sets for its own library, ACCELERATE_…, are left out.
//
// Source: huggingface/accelerate 1.14, utils/launch.py, prepare_deepspeed_cmd_env and
// env_var_path_add.
func (o Options) inherited(env *facts.Env) *facts.Env {
	if o.Program != ProgramAccelerate || env == nil {
		return env
	}
	already, _ := Lookup(env, "PYTHONPATH")
	paths := slices.DeleteFunc(strings.Split(already, ":"), func(entry string) bool { return entry == "" })
	changed := *env
	changed.Vars = slices.DeleteFunc(slices.Clone(env.Vars), func(s facts.Setting) bool { return s.Name == "PYTHONPATH" })
	changed.Vars = append(changed.Vars, facts.Setting{Name: "PYTHONPATH", Value: strings.Join(append(paths, path.Clean(o.WorkDir)), ":"), Source: "environment"})
	slices.SortFunc(changed.Vars, byName)
	return &changed
}

// accelerateExports returns the variables that accelerate appends to .deepspeed_env before it
// starts deepspeed. deepspeed then exports them, and they override the lines of every file. They
// are the whole environment except empty variables and values with characters that accelerate
// treats as dangerous.
//
// Source: huggingface/accelerate 1.14, commands/launch.py, deepspeed_launcher, and
// utils/environment.py, convert_dict_to_env_variables.
func accelerateExports(env *facts.Env) []facts.Setting {
	if env == nil {
		return nil
	}
	var lines []facts.Setting
	for _, s := range env.Vars {
		if s.Value != "" && !strings.ContainsAny(s.Name+s.Value, ";\n<> ") {
			lines = append(lines, facts.Setting{Name: s.Name, Value: s.Value, Source: byAccelerate})
		}
	}
	return lines
}
