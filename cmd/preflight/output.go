// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/secret"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/report"
	"preflight/report/formats"
)

func (c Config) outputs() []outputs.Output {
	return outputs.Of(c.Format, c.origin("output"), c.Output,
		outputs.Output{Asked: c.origin("good_hosts") + " " + c.GoodHosts, Format: formats.GoodHosts, Path: c.GoodHosts},
		outputs.Output{Asked: c.origin("bad_hosts") + " " + c.BadHosts, Format: formats.BadHosts, Path: c.BadHosts})
}

func (c Config) writable(written outputs.Product, those map[string]string) error {
	read := map[string]string{"the configuration": c.Stated.File}
	maps.Copy(read, those)
	return outputs.Writable(c.outputs(), written, read, term.IsTerminal(int(os.Stdout.Fd())))
}

func (c Config) write(r checks.Report) error {
	secret.Within(&r)
	return outputs.Deliver(c.outputs(), func(w io.Writer, name string, style report.Style) error {
		format, known := formats.Of(name)
		if !known {
			return fmt.Errorf("unknown format %q", name)
		}
		style.Verbose, style.Quiet = c.Verbose, c.Quiet
		return format.Render(w, r, style)
	})
}

// envWritable checks before the run that the file of --write-env can be written after the run. It
// also checks that the file would not replace settings that did not come from preflight.
func (c Config) envWritable() error {
	if c.WriteEnv == "" {
		return nil
	}
	text, err := os.ReadFile(c.WriteEnv)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.envFile().Creatable()
	case err != nil:
		return outputs.CannotWrite(c.envFile().Asked, err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	settings, problems := launch.ParseEnvFile(facts.EnvFile{Path: c.WriteEnv, Lines: lines})
	foreign := func(s facts.Setting) bool { return !slices.Contains(checks.AdvisedNames, s.Name) }
	if len(text) > 0 && (len(problems) > 0 || slices.ContainsFunc(settings, foreign)) {
		return usage.WithHint(fmt.Errorf("%s already exists, and sets variables that preflight did not write", c.envFile().Asked),
			"write another file and append it: cat advised.env >> %s", c.WriteEnv)
	}
	return nil
}

// writeEnv writes the advised variables in the format of .deepspeed_env: NAME=VALUE lines. A
// comment or a blank line would make DeepSpeed fail.
func (c Config) writeEnv(advice checks.Advice) error {
	if c.WriteEnv == "" {
		return nil
	}
	for _, env := range advice.Refused {
		fmt.Fprintf(os.Stderr, "preflight: %s not written: %s\n", env.Name, env.Why)
	}
	if len(advice.Env) == 0 && len(advice.Refused) > 0 {
		return nil
	}
	if len(advice.Env) == 0 {
		fmt.Fprintf(os.Stderr, "preflight: %s not written: this run proved no variable to be needed\n", c.WriteEnv)
		return nil
	}
	var text strings.Builder
	for _, env := range advice.Env {
		fmt.Fprintf(&text, "%s=%s\n", env.Name, env.Value)
	}
	return c.envFile().Put([]byte(text.String()))
}

// envFile returns the output for the advised variables. A launch uses every variable in this file.
func (c Config) envFile() outputs.Output {
	return outputs.Output{Asked: c.origin("write_env") + " " + c.WriteEnv, Path: c.WriteEnv}
}

// printAnswer prints the result of a command and returns the exit code as an error.
func printAnswer[Report any](format string, seen Report, text func(io.Writer, Report, report.Style) error, code int) error {
	var err error
	if format == "json" {
		err = report.JSON(os.Stdout, seen)
	} else {
		err = text(os.Stdout, seen, outputs.TerminalStyle(os.Stdout))
	}
	if err == nil && code != exitPass {
		err = exitCode(code)
	}
	return err
}

// noHostsGiven reports whether there is nothing to check because no option and no file names hosts.
func noHostsGiven(err error) bool {
	line, is := errors.AsType[*hostfile.LineError](err)
	return is && line.File == hostfile.DefaultPath && errors.Is(line, fs.ErrNotExist)
}

// firstSteps returns the error of `preflight` without arguments, which shows what to type.
func firstSteps() error {
	why := "there is no ./hostfile and no "
	if info, err := os.Stat("hostfile"); err == nil && info.IsDir() {
		why = "./hostfile is a directory, and there is no "
	}
	return usage.WithHint(errors.New("no nodes: "+why+hostfile.DefaultPath), `preflight -H /path/to/hostfile                                # the nodes of a DeepSpeed hostfile
  preflight -w 'node[01-16]'                                    # nodes by name
  preflight -- deepspeed --hostfile /path/to/hostfile train.py  # check this command, then start it`)
}

// nextCommand returns the command to type after a run. It runs the failed checks, for use after the
// fixes, then all checks, then the launch. nextCommand returns "" if the report does not determine
// the next step.
//
// The result is the command that was typed, with changes. Options that belong to the launch come
// after the "--": see [launchFlagNames].
func nextCommand(cmd *cobra.Command, r checks.Report) string {
	typed := typedFlags(cmd, func(flag *pflag.Flag) bool { return flag.Name != "only" && flag.Name != "skip" })
	failed := failing(r)
	partial := cmd.Flags().Changed("only") || cmd.Flags().Changed("skip")
	switch {
	case r.Interrupted && r.ExitCode != exitTrouble:
		return ""
	case len(failed) > 0:
		return fmt.Sprintf("preflight%s --only %s   # after the fixes: re-runs only the failed checks", typed, strings.Join(failed, ","))
	case r.ExitCode == exitTrouble:
		return answering(cmd, r)
	case r.ExitCode != exitPass:
		return ""
	case partial:
		return fmt.Sprintf("preflight%s   # also runs the checks that were left out", typed)
	case r.Launch.HostsFile == "" || r.Launch.Torchrun() || !report.ProgramInSight(r):
		return "" // the program that starts the ranks is unknown
	}
	before := typedFlags(cmd, func(flag *pflag.Flag) bool { return flag.Name != "hostfile" && !decidedByCommand(flag) })
	behind := typedFlags(cmd, decidedByCommand)
	return fmt.Sprintf("preflight%s -- deepspeed --hostfile %s%s train.py …   # checks this command, then starts it", before, text.Quote(r.Launch.HostsFile), behind)
}

// answers maps what the reasons of unknown checks say to the flags that lead to an answer.
var answers = []struct {
	reason    *regexp.Regexp
	flag, why string
}{
	{regexp.MustCompile(`\(--accelerator cpu\)`), "--accelerator cpu", "if the launch is meant to use the CPU"},
	{regexp.MustCompile(`with --python PATH`), "--python PATH", "names the interpreter of the launch"},
	{regexp.MustCompile(`give the launch command after --`), "-- COMMAND", "checks the launch command, with what it imports"},
	{regexp.MustCompile(`\blost: |did not answer in time|no time was left|more time with --timeout`), "--timeout 3m", "gives the nodes more time"},
	{regexp.MustCompile(`^the time ended`), "--rehearse-time 3m", "gives the rehearsal more time"},
}

// mostAgain is the largest number of checks that are named to run them again.
const mostAgain = 6

// answering returns the command that leads from an unknown verdict to an answer. If a finding has a
// command of its own, it is that command. Otherwise it is preflight with another flag, or preflight
// for the unknown checks again.
func answering(cmd *cobra.Command, r checks.Report) string {
	typed := typedFlags(cmd, func(flag *pflag.Flag) bool { return flag.Name != "only" && flag.Name != "skip" })
	launched := ""
	if words := cmd.Flags().Args(); len(words) > 0 {
		launched = " -- " + strings.Join(text.Map(secret.Arguments(words), text.Quote), " ")
	}
	unknown := report.Outcomes(r, checks.Unknown)
	for _, answer := range answers {
		says := func(o checks.Outcome) bool { return o.Verdict == checks.Unknown && answer.reason.MatchString(o.Reason) }
		switch {
		case !slices.ContainsFunc(r.Checks, says):
		case !strings.HasPrefix(answer.flag, "-- "):
			return fmt.Sprintf("preflight%s %s%s   # %s", typedFlags(cmd, anyFlag), answer.flag, launched, answer.why)
		case launched == "":
			return fmt.Sprintf("preflight%s %s   # %s", typedFlags(cmd, anyFlag), answer.flag, answer.why)
		}
	}
	for _, f := range r.Findings {
		if f.Verdict == checks.Unknown && len(f.Fix) > 0 {
			command, _, _ := strings.Cut(f.Fix[0], "   # ")
			return fmt.Sprintf("%s   # look into %s, which is unknown; then run preflight again", command, f.Check)
		}
	}
	switch {
	case len(unknown) > 0 && len(unknown) <= mostAgain && !r.Interrupted:
		return fmt.Sprintf("preflight%s --only %s%s   # runs the unknown checks again", typed, strings.Join(unknown, ","), launched)
	case len(unknown) > 0 || r.Interrupted:
		return fmt.Sprintf("preflight%s%s   # runs the checks again", typedFlags(cmd, anyFlag), launched)
	}
	return fmt.Sprintf("preflight%s%s   # runs all checks, because none of the chosen ones applies to this launch", typed, launched)
}

// rehearsalOf returns the command that also rehearses the launch, to prove what the checks have
// found. It returns "" if the launch was rehearsed, if the user switched that off, or if it cannot
// be rehearsed because a node was not reached.
func rehearsalOf(cmd *cobra.Command, r checks.Report) string {
	isMissing := func(node facts.Node) bool { return !node.Reached }
	if r.NotTried[facts.SectionRehearsed] == "" || r.Interrupted || cmd.Flags().Changed("rehearse") || slices.ContainsFunc(r.Nodes, isMissing) {
		return ""
	}
	words := cmd.Flags().Args()
	kept := typedFlags(cmd, func(flag *pflag.Flag) bool { return flag.Name != "only" })
	return fmt.Sprintf("preflight --rehearse%s -- %s   # proves it: runs the command with a stand-in for the training", kept, strings.Join(text.Map(secret.Arguments(words), text.Quote), " "))
}

// failing returns the checks that make a run fail, in the order of the run's report.
func failing(r checks.Report) (ids []string) {
	for _, outcome := range r.Checks {
		if outcome.Verdict == checks.Fail || r.Strict && outcome.Verdict == checks.Warn {
			ids = append(ids, outcome.Check)
		}
	}
	return ids
}

func anyFlag(*pflag.Flag) bool { return true }

// typedFlags returns the given flags as they were typed, each after a space.
func typedFlags(cmd *cobra.Command, which func(*pflag.Flag) bool) string {
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

// offer prints the next command below a report that is printed as text, except in quiet mode.
func (c Config) offer(next string) {
	toRead := func(o outputs.Output) bool { return o.Printed() && o.Format == formats.Text }
	if next == "" || c.Quiet || !slices.ContainsFunc(c.outputs(), toRead) {
		return
	}
	fmt.Printf("next          %s\n", printable(next))
}
