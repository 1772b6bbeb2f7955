// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// CollectLauncher reads the programs and files with which the launching machine starts a launch.
// Only the launching machine needs it. It runs all programs at the same time, because no part of
// the launch starts before the slowest program has answered.
func CollectLauncher(ctx context.Context, o machine.Options) (*facts.Launcher, error) {
	launcher := &facts.Launcher{Backends: map[string]string{}, EnvFiles: envFiles(o)}
	for _, program := range o.Launchers {
		if path, err := exec.LookPath(program); err == nil {
			launcher.Backends[program] = path
		}
	}
	var asked sync.WaitGroup
	var short error
	if path, err := exec.LookPath("ssh"); err == nil {
		launcher.SSHPath = path
		asked.Go(func() { launcher.SSHVersion = sshVersion(ctx, path) })
	}
	if path, err := exec.LookPath("pdsh"); err == nil {
		asked.Go(func() { launcher.PDSH, short = readPDSH(ctx, path) })
	}
	if launcher.Backends["mpirun"] != "" {
		asked.Go(func() { launcher.MPIRun = readMPIRun(ctx, o, launcher.Backends) })
	}
	launcher.DeepSpeed, launcher.Interpreter = launchProgram(cmp.Or(o.Program, "deepspeed"))
	asked.Wait()
	return launcher, cmp.Or(ctx.Err(), short)
}

// readMPIRun determines to which MPI the mpirun belongs. If mpirun starts the launch, it also
// determines what mpirun starts on the nodes. ompi_info loads every component of Open MPI for its
// answer, which takes a quarter of a second.
func readMPIRun(ctx context.Context, o machine.Options, programs map[string]string) *facts.MPIRun {
	// The output counts, whatever the exit status of mpirun is.
	stdout, _, _ := hostsys.Child{Path: programs["mpirun"], Args: []string{"--version"}, Limit: machine.VersionLimit}.Run(ctx)
	mpirun := parseMPIRun(stdout)
	if o.ByMPIRun {
		mpirun.Daemon = mpiDaemon(ctx, mpirun.Version, programs)
	}
	return mpirun
}

// launchProgram returns the program at the start of a launch command, and the Python that will run
// the program. For `python -m …` the two are the same. Links are not resolved, as in
// sys.executable. Both are "" if there is no such program.
func launchProgram(name string) (path, interpreter string) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", "" // without a working directory a relative name means nothing
	}
	if isPython(path) {
		return path, path
	}
	return path, scriptInterpreter(path)
}

// isPython reports whether a program is a Python interpreter, judging by its name.
func isPython(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, "python") || strings.HasPrefix(name, "pypy")
}

// sshVersion returns the version that ssh prints, or "" if it prints none.
func sshVersion(ctx context.Context, path string) string {
	// The output counts, whatever the exit status of ssh is.
	_, stderr, _ := hostsys.Child{Path: path, Args: []string{"-V"}, Limit: machine.VersionLimit}.Run(ctx)
	return parseSSHVersion(stderr)
}

// parseSSHVersion reads "OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.11 19 Sep 2023".
func parseSSHVersion(banner string) string {
	version, _, _ := strings.Cut(banner, ",")
	version, _, _ = strings.Cut(version, " ")
	return strings.TrimSpace(version)
}

// mpiruns lists the MPIs whose mpirun is recognised by the output of `mpirun --version`. All of
// these were tried in practice except MVAPICH, whose process manager is MPICH's.
var mpiruns = []struct {
	pattern       *lazyregexp.Regexp // matches the output, with the version
	name, options string
}{
	{lazyregexp.New(`^\S+ \((?:Open MPI|OpenRTE)\) (\S+)`), "Open MPI", facts.OptionsOpenMPI},
	{lazyregexp.New(`^Intel\(R\) MPI Library .*Version (\S+)`), "Intel MPI", facts.OptionsHydra},
	{lazyregexp.New(`^HYDRA build details:\n\s*Version:\s*(\S+)`), "Hydra", facts.OptionsHydra},
}

func parseMPIRun(output string) *facts.MPIRun {
	output = strings.TrimSpace(output)
	for _, mpirun := range mpiruns {
		if match := mpirun.pattern.FindStringSubmatch(output); match != nil {
			return &facts.MPIRun{Version: mpirun.name + " " + match[1], Options: mpirun.options}
		}
	}
	first, _, _ := strings.Cut(output, "\n")
	return &facts.MPIRun{Version: first}
}

// mpiDaemon returns what an mpirun starts on the nodes. Open MPI starts orted from the node's PATH,
// or from Open MPI's own directories if it was built that way. Hydra starts its proxy from the
// directory in which mpirun was found. For other MPIs it is unknown.
//
// Source: open-mpi/ompi 4.1, orte/tools/orterun/orterun.c, want_prefix_by_default; pmodels/mpich
// 4.0, src/pm/hydra/pm/pmiserv/pmiserv_utils.c, base_path.
func mpiDaemon(ctx context.Context, version string, programs map[string]string) string {
	switch {
	case strings.HasPrefix(version, "Hydra "):
		return filepath.Join(filepath.Dir(programs["mpirun"]), "hydra_pmi_proxy")
	case !startsOrted.MatchString(version):
		return ""
	}
	// If ompi_info fails, its answer is empty and contains no prefix.
	built, _, _ := hostsys.Child{Path: programs["ompi_info"], Args: []string{"--parsable", "--path", "prefix", "--config"}, Limit: machine.VersionLimit}.Run(ctx)
	return parseDaemon(built)
}

// startsOrted matches releases of Open MPI before 5. Releases from 5 on start PRRTE's prted.
var startsOrted = lazyregexp.New(`^Open MPI [1-4]\.`)

func parseDaemon(ompiInfo string) string {
	prefix, byDefault := "", ""
	for line := range strings.Lines(ompiInfo) {
		line = strings.TrimSpace(line)
		if value, isPrefix := strings.CutPrefix(line, "path:prefix:"); isPrefix {
			prefix = value
		}
		if value, isDefault := strings.CutPrefix(line, "mpirun:prefix_by_default:"); isDefault {
			byDefault = value
		}
	}
	switch byDefault {
	case "yes":
		return filepath.Join(prefix, "bin", "orted")
	case "no":
		return "orted"
	}
	return ""
}

// scriptInterpreter returns the Python that a launcher script will run. It returns "" if the file
// does not name one, as in a pyenv shim, a conda wrapper or a binary.
func scriptInterpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	interpreter := parseShebang(bufio.NewReader(io.LimitReader(f, 4096)))
	if interpreter == "" || filepath.IsAbs(interpreter) {
		return interpreter
	}
	found, err := exec.LookPath(interpreter)
	if err != nil {
		return ""
	}
	return found
}

// parseShebang reads the first lines of a script. It handles the plain form, and `#!/usr/bin/env
// python3`, for which it returns a name without a directory. It also handles what pip writes if a
// path is too long for the kernel or contains a blank (distlib, scripts.py). That is a shell script
// that re-executes itself:
//
//	#!/bin/sh
//	'''exec' "/long path/python" "$0" "$@"
func parseShebang(script *bufio.Reader) string {
	first, _ := script.ReadString('\n') // a script may be one line without a newline
	line, isScript := strings.CutPrefix(first, "#!")
	words := strings.Fields(line)
	if !isScript || len(words) == 0 {
		return ""
	}
	program := words[0]
	switch {
	case filepath.Base(program) == "env":
		program = ""
		for _, word := range words[1:] {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
				program = word
				break
			}
		}
	case program == "/bin/sh":
		second, _ := script.ReadString('\n')
		command, found := strings.CutPrefix(second, "'''exec' ")
		if !found {
			return ""
		}
		program = firstShellWord(strings.TrimSpace(command))
	}
	if !isPython(program) {
		return ""
	}
	return program
}

// firstShellWord returns the first word of a command. pip puts the word in double quotes, and uv in
// single quotes. conda uses either kind of quotes or none.
func firstShellWord(command string) string {
	if command == "" {
		return ""
	}
	if quote := command[:1]; quote == `"` || quote == "'" {
		word, _, _ := strings.Cut(command[1:], quote)
		return word
	}
	word, _, _ := strings.Cut(command, " ")
	return word
}

// envFiles reads the .deepspeed_env files that DeepSpeed would apply, in DeepSpeed's order
// (deepspeed/launcher/runner.py, 0.10.1 and later). The file in the home directory comes first,
// then the file in the working directory. DS_ENV_FILE sets another name. An absolute name is a
// single file, and "~" in it is not expanded.
func envFiles(o machine.Options) []facts.EnvFile {
	name, named := os.LookupEnv("DS_ENV_FILE")
	if !named { // an empty value counts as a name, but names no file
		name = ".deepspeed_env"
	}
	var paths []string
	if filepath.IsAbs(name) {
		paths = []string{name}
	} else {
		if home, err := os.UserHomeDir(); err == nil {
			paths = append(paths, filepath.Join(home, name))
		}
		if dir, err := machine.LaunchDirectory(o.WorkDir); err == nil && !(len(paths) > 0 && paths[0] == filepath.Join(dir, name)) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	files := []facts.EnvFile{}
	for _, path := range paths {
		info, err := os.Stat(o.At(path))
		if err != nil || !info.Mode().IsRegular() {
			continue // without a message, as in DeepSpeed
		}
		text, err := os.ReadFile(o.At(path))
		file := facts.EnvFile{Path: path, Lines: maskLines(string(text))}
		if err != nil {
			file.Error = machine.Reason(err)
		}
		files = append(files, file)
	}
	return files
}

// maskValue hides a possible secret. It keeps only the characters on which pdsh or a shell would
// act: "pass$word" becomes "…$…".
func maskValue(value string) string {
	var text strings.Builder
	hidden := false
	for i, r := range value {
		mark := r == '%' && i+1 < len(value) && strings.ContainsRune("hun%", rune(value[i+1])) ||
			i > 0 && value[i-1] == '%' && strings.ContainsRune("hun%", r)
		if mark || strings.ContainsRune(" \t$`\"'\\;&|<>()*?[]{}~#", r) {
			text.WriteRune(r)
			hidden = false
		} else if !hidden {
			text.WriteRune('…')
			hidden = true
		}
	}
	return text.String()
}

// maskLines keeps every line, because each line has an effect in DeepSpeed, but no possible secret.
// It hides the values of names that are not on the allow-list, comments, and lines that are not
// assignments. A carriage return also ends a line, as in Python.
func maskLines(text string) []string {
	lines := []string{}
	for line := range strings.Lines(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)) {
		line = strings.TrimSpace(line)
		name, _, isAssignment := strings.Cut(line, "=")
		variable := strings.TrimSpace(strings.TrimPrefix(name, "export "))
		switch {
		case isAssignment && allowed(variable), line == "":
		case isAssignment && !strings.HasPrefix(line, "#"):
			line = name + "=" + maskValue(line[len(name)+1:])
		case isAssignment:
			line = "#…=…" // DeepSpeed treats this line as an assignment
		case strings.HasPrefix(line, "#"):
			line = "#…"
		default:
			line = "…"
		}
		lines = append(lines, line)
	}
	return lines
}
