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
	"preflight/internal/secret"
	"preflight/internal/text"
	"preflight/launch/args"
)

// commandOnly takes words behind a "--" only: they are the launch to judge.
func commandOnly(cmd *cobra.Command, words []string) error {
	before := words
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		before = words[:dash]
		if dash == len(words) {
			return usage.WithHint(errors.New(`no command after "--"`), "%s -- deepspeed --hostfile hostfile train.py", usage.Words(cmd.CommandPath()))
		}
	}
	if len(before) > 0 && args.Begins(before[0]) {
		// The options among the words were taken for ours, so they are shown as typed.
		typed := secret.Arguments(os.Args[max(slices.Index(os.Args, before[0]), 0):])
		for i, word := range typed {
			typed[i] = text.Quote(word)
		}
		return usage.WithHint(fmt.Errorf("unexpected argument %q", before[0]), `the launch command comes after "--": %s -- %s`, usage.Words(cmd.CommandPath()), usage.Words(strings.Join(typed, " ")))
	}
	return noArguments(cmd, before)
}

// assignment is a variable before a command, as a shell reads it.
var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// inEnvironment sets the variables that stand before a command, alone or behind env, and is
// what follows them, and their names: they are what it would have found had they stood before preflight.
func inEnvironment(words []string) (command, names []string) {
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

// asTyped is a launch as it was typed, and as it is judged.
type asTyped struct {
	words   []string // which become it
	command []string // the launch itself, inside a script too
	dir     string   // where a script goes before that, "" for nowhere else
	set     []string // the names of the variables that the words or the script set for it
}

// readTyped sets the variables that stand before a command, or that a script exports which the words run, and is the
// command that is left, of the script the one that it comes to.
func readTyped(words []string) (t asTyped, err error) {
	t.words, t.set = inEnvironment(words)
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
	t.command, exports = inEnvironment(script.Typed)
	t.set = append(t.set, exports...)
	if script.Dir != around.WorkDir {
		t.dir = script.Dir
	}
	return t, nil
}

// ofTheCommand are the flags that a launch command has too. It is read as it
// stands, so that what is judged is what will run. Which hosts those of the flags
// may be, only the command itself can tell.
var ofTheCommand = []string{"include", "exclude", "num_nodes", "num_gpus", "force_multi", "master_addr", "master_port", "launcher", "ssh_port", "rendezvous", "rdzv_endpoint"}

func decidedByCommand(flag *pflag.Flag) bool {
	return slices.Contains(ofTheCommand, strings.ReplaceAll(flag.Name, "-", "_"))
}

// commandDecides refuses flags that say of the launch what the command says.
func commandDecides(cmd *cobra.Command, command []string) error {
	if len(command) == 0 {
		if dry := cmd.Flags().Lookup("dry-run"); dry != nil && dry.Changed && !cmd.Flags().Changed("accept") {
			return usage.WithHint(errors.New(`--dry-run needs a launch command after "--"`), "%s --dry-run -- deepspeed …", usage.Words(cmd.CommandPath()))
		}
		return nil
	}
	var err error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if decidedByCommand(flag) && err == nil {
			name := "--" + flag.Name
			if flag.Shorthand != "" {
				name = "-" + flag.Shorthand + "/" + name
			}
			err = usage.WithHint(fmt.Errorf(`%s conflicts with the launch command after "--"`, name), `give it to %s, after the "--"`, filepath.Base(command[0]))
		}
	})
	return err
}

// strange is why the command would start nothing useful here although it would
// work: a command that is typed on every host starts the ranks of the machine it
// is typed on. "" when there is nothing against it.
func strange(r checks.Report) string {
	byHand := r.Launch.Torchrun() || r.Launch.NoSSH
	if !byHand || len(r.Launch.Hosts) < 2 || r.LaunchedFrom != "" {
		return ""
	}
	return fmt.Sprintf("this command must be started on each of the %d nodes, and this machine is none of them", len(r.Launch.Hosts))
}

// become replaces this process by the launch, arguments untouched. It returns
// only when that fails.
func become(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return usage.WithHint(fmt.Errorf("%s not found: %w", command[0], errors.Unwrap(err)), "activate its environment, or write the full path")
	}
	err = syscall.Exec(path, command, os.Environ())
	return fmt.Errorf("%s cannot be started: %w", path, err)
}

// notLaunched says why the launch did not follow.
func notLaunched(r checks.Report) {
	why := strange(r)
	switch r.ExitCode {
	case exitFail:
		why = "a check failed"
	case exitTrouble:
		why = "some checks are unknown"
	}
	fmt.Fprintf(os.Stderr, "preflight: not launched: %s\n", why)
}
