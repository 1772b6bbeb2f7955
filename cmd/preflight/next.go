// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/report/formats"
)

// nobodyNamed is whether there is nothing to judge because nothing says which hosts.
func nobodyNamed(err error) bool {
	line, is := errors.AsType[*hostfile.LineError](err)
	return is && line.File == hostfile.DefaultPath && errors.Is(line, fs.ErrNotExist)
}

// firstSteps tells whoever typed the bare name what to type.
func firstSteps() error {
	return usage.WithHint(errors.New("no nodes: there is no ./hostfile and no "+hostfile.DefaultPath), `preflight -H /path/to/hostfile                                # the nodes of a DeepSpeed hostfile
  preflight -w 'node[01-16]'                                    # nodes by name
  preflight -- deepspeed --hostfile /path/to/hostfile train.py  # check this command, then start it`)
}

// nextCommand is what to type after a run: the checks that failed, once what they found is
// mended; then all checks; then the launch. "" where that is not to be told from here.
//
// It is the command that was typed with what differs. What a launch decides itself goes
// behind the "--": see [ofTheCommand].
func nextCommand(cmd *cobra.Command, r checks.Report) string {
	typed := words(cmd, func(flag *pflag.Flag) bool { return flag.Name != "only" && flag.Name != "skip" })
	failed := failing(r)
	partial := cmd.Flags().Changed("only") || cmd.Flags().Changed("skip")
	switch {
	case r.Interrupted:
		return ""
	case len(failed) > 0:
		return fmt.Sprintf("preflight%s --only %s   # after the fixes: re-runs only the failed checks", typed, strings.Join(failed, ","))
	case r.ExitCode == exitTrouble && !cmd.Flags().Changed("verbose"):
		return fmt.Sprintf("preflight%s -v   # shows why each check is unknown", words(cmd, anyFlag))
	case r.ExitCode != exitPass:
		return ""
	case partial:
		return fmt.Sprintf("preflight%s   # also runs the checks that were left out", typed)
	case r.Launch.HostsFile == "" || r.Launch.Torchrun():
		return "" // which program starts the ranks, nobody has said
	}
	before := words(cmd, func(flag *pflag.Flag) bool { return flag.Name != "hostfile" && !decidedByCommand(flag) })
	behind := words(cmd, decidedByCommand)
	return fmt.Sprintf("preflight%s -- deepspeed --hostfile %s%s train.py …   # checks this command, then starts it", before, text.Quote(r.Launch.HostsFile), behind)
}

// failing are the checks that fail a run, in the order of its report.
func failing(r checks.Report) (ids []string) {
	for _, outcome := range r.Checks {
		if outcome.Verdict == checks.Fail || r.Strict && outcome.Verdict == checks.Warn {
			ids = append(ids, outcome.Check)
		}
	}
	return ids
}

func anyFlag(*pflag.Flag) bool { return true }

// words are the flags that were given, as they are typed, each behind a space.
func words(cmd *cobra.Command, which func(*pflag.Flag) bool) string {
	var all strings.Builder
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !which(flag) {
			return
		}
		for _, value := range flagValues(flag) {
			switch {
			case flag.Value.Type() == "bool" && value == "true":
				all.WriteString(" " + spelled(flag))
			case flag.Value.Type() == "bool" || flag.NoOptDefVal != "":
				all.WriteString(" --" + flag.Name + "=" + text.Quote(value))
			default:
				all.WriteString(" " + spelled(flag) + " " + text.Quote(value))
			}
		}
	})
	return all.String()
}

// offer prints the next command where a person reads the report. Whoever reads it later, or
// asked for the findings alone, is not told.
func (c Config) offer(next string) {
	toRead := func(o outputs.Output) bool { return o.Printed() && o.Format == formats.Text }
	if next == "" || c.Quiet || !term.IsTerminal(int(os.Stdout.Fd())) || !slices.ContainsFunc(c.outputs(), toRead) {
		return
	}
	fmt.Printf("\nnext          %s\n", said(next))
}
