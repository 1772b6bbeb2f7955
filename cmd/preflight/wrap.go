// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight/checks"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/internal/secret"
	"preflight/internal/text"
	"preflight/launch/args"
)

// commandOnly accepts arguments only after a "--". These arguments are the launch to check.
func commandOnly(cmd *cobra.Command, words []string) error {
	before := words
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		before = words[:dash]
		if dash == len(words) {
			return usage.WithHint(errors.New(`no command after "--"`), "%s -- deepspeed --hostfile hostfile train.py", usage.Words(cmd.CommandPath()))
		}
	}
	if len(before) > 0 && args.Begins(before[0]) {
		// pflag has read the options among these words as preflight's options, so the hint shows
		// the words as they were typed.
		typed := secret.Arguments(os.Args[max(slices.Index(os.Args, before[0]), 0):])
		for i, word := range typed {
			typed[i] = text.Quote(word)
		}
		return usage.WithHint(fmt.Errorf("unexpected argument %q", before[0]), `the launch command comes after "--": %s -- %s`, usage.Words(cmd.CommandPath()), usage.Words(strings.Join(typed, " ")))
	}
	return noArguments(cmd, before)
}

// assignment matches the start of a variable assignment before a command, as a shell reads it.
var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// setAssignments sets the variables that are assigned before a command, with or without env. It
// returns the command that follows and the names of the variables. The effect is the same as if the
// variables were assigned before preflight.
func setAssignments(words []string) (command, names []string) {
	command = words
	if len(words) > 1 && words[0] == "env" && assignment.MatchString(words[1]) {
		command = words[1:]
	}
	for len(command) > 1 && assignment.MatchString(command[0]) {
		name, value, _ := strings.Cut(command[0], "=")
		if err := os.Setenv(name, value); err != nil {
			return words, nil
		}
		command, names = command[1:], append(names, name)
	}
	return command, names
}

// typedLaunch is a launch as it was typed, and the command that preflight checks.
type typedLaunch struct {
	words   []string // the words that preflight starts at the end
	command []string // the launch command, even if a script starts it
	dir     string   // the directory that a script changes to; "" if it does not
	set     []string // names of the variables that the words or the script set
}

// readTyped reads the words after "--". It sets the variables that are assigned before the command
// or that the script exports, and finds the launch command that the script starts.
func readTyped(words []string) (t typedLaunch, err error) {
	t.words, t.set = setAssignments(words)
	t.command = t.words
	around := args.Surroundings{Getenv: os.Getenv, ReadFile: os.ReadFile}
	if around.WorkDir, err = workingDirectory(); err == nil {
		around.Hostname, err = os.Hostname()
	}
	if err != nil {
		return t, err
	}
	script, err := args.OfScript(t.words, around)
	if script.Typed == nil {
		return t, err
	}
	exports := []string(nil)
	t.command, exports = setAssignments(script.Typed)
	t.set = append(t.set, exports...)
	if script.Dir != around.WorkDir {
		t.dir = script.Dir
	}
	return t, nil
}

// launchFlagNames lists the flags that a launch command also has. preflight checks the command
// exactly as it was typed, so these flags must be options of the command. Only the command itself
// can decide whether -H and -w apply.
var launchFlagNames = []string{"include", "exclude", "num_nodes", "num_gpus", "force_multi", "master_addr", "master_port", "launcher", "ssh_port", "rendezvous", "rdzv_endpoint"}

func decidedByCommand(flag *pflag.Flag) bool {
	return slices.Contains(launchFlagNames, strings.ReplaceAll(flag.Name, "-", "_"))
}

// commandDecides refuses flags that describe the launch if the user typed a launch command.
func commandDecides(cmd *cobra.Command, command []string) error {
	if len(command) == 0 {
		if dry := cmd.Flags().Lookup("dry-run"); dry != nil && dry.Changed && !cmd.Flags().Changed("accept") {
			return usage.WithHint(errors.New(`--dry-run needs a launch command after "--"`), "%s --dry-run -- deepspeed …", usage.Words(cmd.CommandPath()))
		}
		if n := cmd.Flags().Lookup("rehearse"); n != nil && n.Changed && n.Value.String() != "0" {
			return usage.WithHint(errors.New(`--rehearse needs a launch command after "--"`), "%s --rehearse -- deepspeed …", usage.Words(cmd.CommandPath()))
		}
		return nil
	}
	var given []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if decidedByCommand(flag) {
			given = append(given, "--"+flag.Name)
		}
	})
	if given == nil {
		return nil
	}
	return usage.WithHint(fmt.Errorf(`conflicts with the launch command after "--": %s`, strings.Join(given, ", ")), `give it to %s, after the "--"`, filepath.Base(command[0]))
}

// wrongPlace explains why starting the command on this machine would be useless, although the
// launch can work: the ranks run in a container, or the command must be started on every host, and
// this machine is not a host of the launch. wrongPlace returns "" if the command may start on this
// machine.
func wrongPlace(r checks.Report) string {
	inside := func(n facts.Node) bool { return n.SSH != nil && n.SSH.Inside != nil }
	if !r.Launch.Srun && slices.ContainsFunc(r.Nodes, inside) {
		return "this command would run outside the container that --in enters: start it in the container; to check only, add --dry-run"
	}
	byHand := (r.Launch.Torchrun() || r.Launch.NoSSH) && !r.Launch.Srun
	if !byHand || len(r.Launch.Hosts) < 2 || r.LaunchedFrom != "" {
		return ""
	}
	return fmt.Sprintf("this command must be started on each of the %d nodes, and this machine is not one of them: log in to each node and start it there, or start it with srun in a Slurm job; to only check, add --dry-run", len(r.Launch.Hosts))
}

// startLaunch replaces this process with the launch and does not change the launch's arguments. It
// returns only if that fails.
func startLaunch(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return usage.WithHint(fmt.Errorf("%s not found: %w", command[0], errors.Unwrap(err)), "activate its environment, or write the full path")
	}
	err = syscall.Exec(path, command, os.Environ())
	return fmt.Errorf("%s cannot be started: %w", path, err)
}

// notLaunched reports why the launch was not started. If isProvable is true, it also says how to
// prove that.
func notLaunched(r checks.Report, isProvable bool) {
	why := wrongPlace(r)
	switch r.ExitCode {
	case exitFail:
		why = "a check failed"
	case exitTrouble:
		why = "some checks are unknown"
	}
	fmt.Fprintf(os.Stderr, "preflight: not launched: %s\n", why)
	if isProvable {
		fmt.Fprintln(os.Stderr, "preflight: to see what the real launcher does, add --rehearse: it runs this command with a stand-in for the training")
	}
}
