// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/secret"
)

// pdshCommand makes pdsh run launch.py on every host. All words after pdsh's options form one
// command for the shell of each node, in which pdsh replaces %n by the node's rank.
//
// Source: deepspeed/launcher/multinode_runner.py, PDSHRunner.get_cmd, v0.6.0 to 0.19.8.
func (r runner) pdshCommand() []string {
	argv := []string{"pdsh"}
	if !r.before("0.6.6") {
		argv = append(argv, "-S")
	}
	argv = append(argv, "-f", "1024", "-w", strings.Join(HostNames(r.active), ","))
	argv = append(argv, r.words...)
	if !r.before("0.17.1") && r.VenvScript != "" {
		source := "source " + r.VenvScript
		if !r.before("0.17.5") { // earlier releases left out the semicolon
			source += ";"
		}
		argv = append(argv, source)
	}
	var exports strings.Builder
	for _, s := range r.exports {
		exports.WriteString("export " + s.Name + "=" + s.Value + "; ")
	}
	argv = append(argv, exports.String(), "cd "+r.WorkDir+";", r.python, "-u", "-m", "deepspeed.launcher.launch",
		"--world_info="+worldInfo(r.active), "--node_rank=%n", "--master_addr="+r.masterAddr(), "--master_port="+strconv.Itoa(r.masterPort()))
	argv = append(argv, r.launchOptions(!r.before("0.16.2"))...)
	argv = append(argv, r.Script)
	for _, argument := range r.arguments {
		argv = append(argv, r.pdshArgument(argument))
	}
	return argv
}

// pdshArgument returns a script argument as it appears in the command for the nodes' shells
// (PDSHRunner.parse_user_args). Since v0.12.5, arguments with a space are in double quotes. In
// earlier releases, all arguments are in single quotes unless they begin with "-".
func (r runner) pdshArgument(argument string) string {
	switch {
	case r.before("0.12.5") && strings.HasPrefix(argument, "-"):
		return argument
	case r.before("0.12.5"):
		return "'" + argument + "'"
	case strings.Contains(argument, " "):
		return `"` + strings.ReplaceAll(argument, `"`, `\"`) + `"`
	}
	return argument
}

func (r runner) pdshEnvironment() []facts.Setting {
	settings := []facts.Setting{{Name: "PDSH_RCMD_TYPE", Value: "ssh", Source: "deepspeed"}}
	if r.SSHPort == 0 {
		return settings
	}
	before, _ := Lookup(r.env, sshArgsAppend)
	blanks := " "
	switch {
	case r.before("0.11.0"):
		before = ""
	case !r.before("0.14.1"):
		blanks = strings.Repeat(" ", 13) // the indentation of a continued line in DeepSpeed's source
	}
	return append(settings, facts.Setting{Name: sshArgsAppend, Value: before + blanks + "-p " + strconv.Itoa(r.SSHPort), Source: "deepspeed"})
}

// sshArgsAppend is the variable with the options that pdsh appends to its ssh command.
const sshArgsAppend = "PDSH_SSH_ARGS_APPEND"

func pythonPath(workDir string, env *facts.Env) string {
	if already, set := Lookup(env, "PYTHONPATH"); set {
		return workDir + ":" + already
	}
	return workDir
}

// Lookup returns a variable of an environment, which may be nil.
func Lookup(env *facts.Env, name string) (value string, set bool) {
	if env == nil {
		return "", false
	}
	i := slices.IndexFunc(env.Vars, func(s facts.Setting) bool { return s.Name == name })
	if i < 0 {
		return "", false
	}
	return env.Vars[i].Value, true
}

func HostNames(hosts []hostfile.Host) []string {
	var names []string
	for _, host := range hosts {
		names = append(names, host.Name)
	}
	return names
}

func (r runner) pdshRefuses() error {
	if !r.appendsBlindly() || r.env == nil || r.has(sshArgsAppend) {
		return nil
	}
	return DeepSpeedRefuses("KeyError: 'PDSH_SSH_ARGS_APPEND'", "--ssh_port of DeepSpeed 0.11.0 to 0.14.0 only works if PDSH_SSH_ARGS_APPEND is set: export it (an empty value is enough), or put the port into ~/.ssh/config")
}

// appendsBlindly reports whether DeepSpeed appends --ssh_port to a variable that may not be set.
func (r runner) appendsBlindly() bool { return r.SSHPort != 0 && r.within("0.11.0", "0.14.1") }

// pdshTraps lists one-letter options of pdsh that should not appear in --launcher_args.
var pdshTraps = []struct {
	options string
	trap    hostfile.Note
}{
	{"waAg", hostfile.Note{ID: "launcher-args-hosts", Message: "adds hosts to those of the hostfile, and these hosts get no ranks (IndexError on each): name them in the hostfile"}},
	{"xX", hostfile.Note{ID: "launcher-args-hosts", Message: "leaves hosts out, so the hosts after them get wrong ranks: use --exclude"}},
	{"R", hostfile.Note{ID: "launcher-args-module", Message: "makes pdsh use a module other than ssh: leave it out"}},
	{"f", hostfile.Note{ID: "launcher-args-fanout", Message: "replaces DeepSpeed's fan-out of 1024: more hosts than that only start when others have ended, which never happens; leave it out"}},
	{"u", hostfile.Note{ID: "launcher-args-timeout", Message: "ends the training after that many seconds: leave it out"}},
}

func (r runner) pdshNotes() []hostfile.Note {
	notes := r.shellNotes()
	for _, word := range r.words {
		for _, row := range pdshTraps {
			if len(word) > 1 && word[0] == '-' && strings.IndexByte(row.options, word[1]) >= 0 {
				notes = append(notes, note(row.trap.ID, "%q of --launcher_args %s", word, row.trap.Message))
			}
		}
	}
	if r.VenvScript != "" && r.within("0.17.1", "0.17.5") {
		notes = append(notes, note("venv-script-unended", `DeepSpeed 0.17.1 to 0.17.4 forgets the ";" after --venv_script, so the export of %s that follows becomes an argument of the script: write --venv_script '%s;'`, r.exports[0].Name, r.VenvScript))
	}
	if r.appendsBlindly() && r.env == nil {
		notes = append(notes, note("ssh-port-append", "--ssh_port of DeepSpeed 0.11.0 to 0.14.0 fails if PDSH_SSH_ARGS_APPEND is not set (KeyError): export it (an empty value is enough)"))
	}
	return notes
}

// shellNotes returns notes about words that pdsh and the nodes' shells read a second time.
func (r runner) shellNotes() []hostfile.Note {
	var notes []hostfile.Note
	if !isShellSafe(r.Script) {
		notes = append(notes, note("script-reread", "%q is read again by pdsh and the shell of every node, which split or change the path: rename it without blanks and special characters", r.Script))
	}
	var torn []string
	shown := secret.Arguments(r.arguments)
	for i, argument := range r.arguments {
		if word := r.pdshArgument(argument); word == "" || !survivesShell(argument, word) {
			torn = append(torn, fmt.Sprintf("%q", shown[i]))
		}
	}
	if torn != nil {
		notes = append(notes, note("argument-reread", "%s of the script's arguments: pdsh replaces %%n, %%h, %%u and %%%%, and the shell of every node parses it again, so the script gets something else: quote it again, and double each %% before n, h, u and %%", strings.Join(torn, ", ")))
	}
	if !isShellSafe(r.WorkDir) {
		notes = append(notes, note("workdir-reread", "the command changes to %q without quotes, which the shell of every node reads differently, and python then starts in the home directory: launch from a directory without blanks and special characters in its path", r.WorkDir))
	}
	if !isShellSafe(r.python) {
		notes = append(notes, note("interpreter-reread", "the command calls %q without quotes, which the shell of every node reads differently: use a python without blanks and special characters in its path", r.python))
	}
	return notes
}

// isShellSafe reports whether an unquoted word reaches the program unchanged. An unknown (empty)
// word counts as safe.
func isShellSafe(word string) bool { return word == "" || survivesShell(word, word) }
