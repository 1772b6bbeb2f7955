// SPDX-License-Identifier: Apache-2.0

// Package args parses the command lines of deepspeed, torchrun and accelerate as these programs do.
// It imitates Python's argparse with its abbreviations, and knows each program's options by release
// and the errors that each program reports itself.
//
// It uses only the words and the [Surroundings] that it gets. Package args predicts nothing;
// package launch makes predictions from the options.
package args

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"preflight/hostfile"
	"preflight/launch"
)

// Typed is a launch command as its own program parses it.
type Typed struct {
	// Options holds everything except Hosts, which come from the hostfile. Its notes are only about
	// the command.
	launch.Options
	// Hostfile is the path that will be read, "" for a program that reads none. HostfileGiven means
	// that the command names it.
	Hostfile      string
	HostfileGiven bool
}

// Surroundings holds what a program reads besides its command line.
type Surroundings struct {
	Getenv   func(name string) string
	ReadFile func(path string) ([]byte, error)
	// Python is the version of the interpreter that parses the command line, "" for 3.11. Later
	// versions accept fewer abbreviations.
	Python string
	// WorkDir is the directory in which the command is typed, and Hostname is the name of that
	// machine. Only shell scripts use these fields.
	WorkDir, Hostname string
}

type program struct {
	kind   string // one of the Program constants
	prog   string // the text before the colon in its error messages
	legacy bool   // torch.distributed.launch instead of torch.distributed.run
	outer  string // accelerate's main parser, of which launch is a subcommand
	words  []string
	module bool // started with python -m
}

// understood lists the supported commands, for error messages.
const understood = "deepspeed, torchrun or accelerate launch, also with python -m"

// Begins reports whether a word begins a launch command.
func Begins(word string) bool {
	name := path.Base(word)
	return slices.Contains(launch.Programs, name) || slices.ContainsFunc(frameworks, func(f framework) bool { return slices.Contains(f.names, name) })
}

// Parse parses a launch command as its program would. The program is deepspeed, torchrun or
// accelerate, with any path, or python -m with one of their modules. Parse replaces a framework's
// command, and one of srun, by the command that it starts. deepspeed is DeepSpeed's version, "" for the
// newest. An error is or wraps a [*UsageError].
//
// Parse follows the rules of argparse in CPython 3.11. It also uses the error messages of 3.11
// where later versions changed only the wording.
func Parse(words []string, deepspeed string, around Surroundings) (Typed, error) {
	if len(words) == 0 {
		return Typed{}, &launch.UsageError{Program: "preflight", Message: "no launch command given: begin it with " + understood}
	}
	if err := quotedWhole(words[0]); err != nil {
		return Typed{}, err
	}
	command, framework, given, err := started(words, around)
	if err != nil {
		return Typed{}, err
	}
	if command != nil {
		typed, err := Parse(command, deepspeed, around)
		if framework == srunName {
			return throughSrun(words[:len(words)-len(command)], command, typed, err)
		}
		typed.Framework, typed.Interpreter = framework, cmp.Or(typed.Interpreter, given)
		return typed, err
	}
	p, interpreter, err := recognise(words)
	if err != nil {
		return Typed{}, err
	}
	var typed Typed
	switch p.kind {
	case launch.ProgramTorchrun:
		typed, err = parseTorchrun(p, around)
	case launch.ProgramAccelerate:
		typed, err = parseAccelerate(p, deepspeed, around)
	default:
		typed, err = parseDeepSpeed(p.prog, p.words, deepspeed, around)
	}
	if err != nil {
		return Typed{}, err
	}
	typed.Notes = append(typed.Notes, misplaced(p.kind, typed.Arguments)...)
	typed.DeepSpeed, typed.ByModule = deepspeed, p.module
	config := configuredBy(typed.Arguments, around)
	typed.ConfigFile, typed.Reads, typed.Configured = cmp.Or(typed.ConfigFile, config.deepspeed), config.paths, config.options
	// accelerate starts the deepspeed that it finds in PATH, so the command does not show
	// deepspeed's interpreter.
	if typed.Hostfile == "" || p.kind == launch.ProgramDeepSpeed {
		typed.Interpreter = cmp.Or(typed.Interpreter, interpreter)
	}
	return typed, nil
}

// launcherOptions lists options that only the launcher has. Scripts rarely have options with these
// names.
var launcherOptions = map[string][]string{
	launch.ProgramDeepSpeed:  {"--hostfile", "--force-multi", "--no-ssh"},
	launch.ProgramTorchrun:   {"--nnodes", "--nproc-per-node", "--node-rank", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--standalone"},
	launch.ProgramAccelerate: {"--num-machines", "--machine-rank", "--main-process-ip", "--deepspeed-hostfile", "--use-deepspeed", "--multi-gpu"},
}

// misplaced warns about options of the launcher that come after the script.
func misplaced(kind string, arguments []string) []hostfile.Note {
	var lost []string
	for _, argument := range arguments {
		name, _, _ := strings.Cut(argument, "=")
		if slices.Contains(launcherOptions[kind], strings.ReplaceAll(name, "_", "-")) {
			lost = append(lost, name)
		}
	}
	if lost == nil {
		return nil
	}
	return []hostfile.Note{{ID: "option-after-script", Message: fmt.Sprintf(
		"options after the script do not reach %s: %s", kind, strings.Join(lost, ", "))}}
}

// quotedWhole refuses a command that is a single quoted word, because no program has such a name.
func quotedWhole(word string) error {
	fields := strings.Fields(word)
	for len(fields) > 1 && strings.Contains(fields[0], "=") {
		fields = fields[1:]
	}
	if len(fields) < 2 || !Begins(fields[0]) && !pythonName.MatchString(path.Base(fields[0])) && !slices.Contains(shells, path.Base(fields[0])) {
		return nil // a path may contain spaces
	}
	return &launch.UsageError{Program: path.Base(fields[0]), Message: fmt.Sprintf("the whole command is one word, %q, and no program has that name: remove the quotes", word),
		Original: fmt.Sprintf("bash: %s: command not found", word)}
}

// anyRelease stands for all DeepSpeed releases together, with every option that any release has.
const anyRelease = "any"

// HostfileOf returns the path of the hostfile that a command will read, "" for a program that reads
// none. It needs no DeepSpeed release, because the file that names the release may be in the
// hostfile's directory. An error is or wraps a [*UsageError]. HostfileOf may refuse a command that
// a specific release accepts: an abbreviation may be unique in that release but ambiguous over all
// releases.
func HostfileOf(words []string, around Surroundings) (string, error) {
	typed, err := Parse(words, anyRelease, around)
	return typed.Hostfile, err
}

var pythonName = regexp.MustCompile(`^python[0-9.]*$`)

func recognise(words []string) (p program, interpreter string, err error) {
	name := path.Base(words[0])
	if !pythonName.MatchString(name) {
		p, err = script(name, words[1:])
		return p, "", err
	}
	if path.IsAbs(words[0]) {
		interpreter = words[0]
	}
	isModule, what, rest := pythonRuns(words[1:])
	switch {
	case isModule:
		p, err = module(name, what, rest)
		p.module = true
	case what != "":
		if p, err = script(path.Base(what), rest); err != nil {
			err = &launch.UsageError{Program: name, Message: fmt.Sprintf("%s would be one process that connects to no other: start it with %s", what, understood)}
		}
	default:
		err = &launch.UsageError{Program: name, Message: "names no script and no module to run: begin the command with " + understood}
	}
	return p, interpreter, err
}

func script(name string, words []string) (program, error) {
	switch name {
	case "deepspeed", "deepspeed.pt", "ds":
		return program{kind: launch.ProgramDeepSpeed, prog: name, words: words}, nil
	case "torchrun":
		return program{kind: launch.ProgramTorchrun, prog: name, words: words}, nil
	case "accelerate":
		return subcommand(words)
	case "accelerate-launch":
		return program{kind: launch.ProgramAccelerate, prog: accelerateLaunch, words: words}, nil
	case "ray":
		return program{}, &launch.UsageError{Program: name, Message: "it starts no ranks itself: Ray runs the job on a node that Ray chooses, and starts the workers where it has room: check the hosts without a command, as in preflight -H hostfile"}
	case "chrt", "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf", "taskset", "time", "timeout":
		return program{}, &launch.UsageError{Program: name, Message: fmt.Sprintf("it starts another command: put it before preflight, as in %s … preflight -- deepspeed …", name)}
	case "env":
		return program{}, &launch.UsageError{Program: name, Message: "preflight knows none of its options: write NAME=value … deepspeed …, or set the variables before preflight itself, which hands them on"}
	}
	return program{}, &launch.UsageError{Program: name, Message: "preflight does not know what this starts" + wayOut(name)}
}

// containerEngines lists programs that run other commands in a container.
var containerEngines = []string{"docker", "podman", "nerdctl", "apptainer", "singularity", "enroot", "nsenter"}

// wayOut returns the end of an error message: what to type instead of a program that is not
// supported.
func wayOut(name string) string {
	var launchers []string
	for _, l := range launch.Launchers {
		if len(l.Programs) > 0 && l.Programs[len(l.Programs)-1] == name {
			launchers = append(launchers, l.Name)
		}
	}
	if launchers != nil {
		way := fmt.Sprintf(": begin the command with %s; or leave it out, and name the launcher and the hosts: preflight -H hostfile --launcher %s", understood, launchers[0])
		if others := launchers[1:]; len(others) > 0 {
			way += ", or " + strings.Join(others, ", ") + ", whose " + name + " it is"
		}
		return way
	}
	if slices.Contains(containerEngines, name) {
		return fmt.Sprintf(": begin the command with the program that runs in the container, and name the container with --in: preflight --in '%s exec …' -- deepspeed …", name)
	}
	for _, meant := range []string{launch.ProgramDeepSpeed, launch.ProgramTorchrun, launch.ProgramAccelerate} {
		if levenshtein.ComputeDistance(name, meant) <= 2 {
			return fmt.Sprintf(": did you mean %q?", meant)
		}
	}
	return ": begin the command with " + understood + ", or with srun, bash SCRIPT, llamafactory-cli, swift or axolotl"
}

func module(python, name string, words []string) (program, error) {
	switch name {
	case "deepspeed.launcher.runner":
		return program{kind: launch.ProgramDeepSpeed, prog: "runner.py", words: words}, nil
	case "torch.distributed.run":
		return program{kind: launch.ProgramTorchrun, prog: "run.py", words: words}, nil
	case "torch.distributed.launch":
		return program{kind: launch.ProgramTorchrun, prog: "launch.py", legacy: true, words: words}, nil
	case "accelerate.commands.launch":
		return program{kind: launch.ProgramAccelerate, prog: accelerateLaunch, words: words}, nil
	case "accelerate.commands.accelerate_cli":
		return subcommand(words)
	case "deepspeed", "accelerate":
		run := map[string]string{"deepspeed": "deepspeed.launcher.runner", "accelerate": "accelerate.commands.launch"}[name]
		return program{}, &launch.UsageError{Program: python, Message: fmt.Sprintf("-m %s runs nothing: write -m %s", name, run),
			Original: fmt.Sprintf("No module named %s.__main__; '%[1]s' is a package and cannot be directly executed", name)}
	}
	return program{}, &launch.UsageError{Program: python, Message: fmt.Sprintf("-m %s would be one process that connects to no other: start it with %s, with --module", name, understood)}
}

func subcommand(words []string) (program, error) {
	if len(words) == 0 || words[0] != "launch" {
		return program{}, &launch.UsageError{Program: launch.ProgramAccelerate, Message: "only accelerate launch starts a training: write accelerate launch …"}
	}
	return program{kind: launch.ProgramAccelerate, prog: "accelerate <command> [<args>] launch", outer: "Accelerate CLI tool", words: words[1:]}, nil
}

// pythonRuns finds the module or script that a python command runs after python's own options, and
// its arguments. what is "" if python runs neither.
//
// Source: CPython 3.11, Python/getopt.c, SHORT_OPTS.
func pythonRuns(words []string) (isModule bool, what string, rest []string) {
	const valued = "cmWX"
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word, "-") || word == "-" {
			return false, word, words[i+1:]
		}
		at := strings.IndexAny(word, valued)
		if at < 0 {
			continue
		}
		value := word[at+1:]
		if value == "" && i+1 < len(words) {
			i++
			value = words[i]
		}
		switch word[at] {
		case 'm':
			return true, value, words[i+1:]
		case 'c':
			return false, "", nil
		}
	}
	return false, "", nil
}
