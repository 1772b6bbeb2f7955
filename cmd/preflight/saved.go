package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/report"
	"preflight/report/ci"
)

// judgeCommand judges a saved run again.
func judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge FILE",
		Short: "Judge a saved run again, offline",
		Args:  arguments(1, 1, "needs one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := readConfig(cmd, nil)
			if err != nil {
				return err
			}
			policy, err := config.policy()
			if err != nil {
				return err
			}
			if err := readOnce(args[0], config.Baseline); err != nil {
				return err
			}
			saved, err := readReport(args[0])
			if err != nil {
				return err
			}
			if err := config.writable(outputs.Run(), map[string]string{"the run that is judged": args[0], "the baseline": config.Baseline}); err != nil {
				return err
			}
			if policy.Baseline, err = config.baseline(saved.Launch); err != nil {
				return err
			}
			judged := rejudge(saved, policy)
			if err := config.write(judged); err != nil {
				return err
			}
			return verdictCode(judged)
		},
	}
	judgeFlags(cmd.Flags())
	hostListFlags(cmd.Flags())
	baselineFlag(cmd.Flags())
	return cmd
}

// rejudge judges the facts of a saved run by today's catalogue. That the run was
// interrupted or is normalized stays true.
func rejudge(saved checks.Report, policy checks.Policy) checks.Report {
	catalogue := checks.Catalogue
	if saved.Normalized {
		catalogue = checks.Lasting(catalogue)
	}
	judged := checks.Evaluate(catalogue, saved.Fleet, saved.Launch, policy)
	judged.Version, judged.Hostfile, judged.Began, judged.Seconds = Version, saved.Hostfile, saved.Began, saved.Seconds
	judged.Interrupted, judged.Normalized = saved.Interrupted, saved.Normalized
	judged.Conclude(policy.Strict)
	return judged
}

// changeFormats are what diff prints.
var changeFormats = []string{"text", "json", "markdown"}

// diffCommand compares two saved runs.
func diffCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Say what changed between two saved runs",
		Long: `Say what changed between two saved runs, fact by fact: nodes that came or went,
and every value that is not the same any more. Values that change by
themselves (load, free memory) are left out. What only one of the runs saw is
named, and not compared.

Exit codes: 0 nothing changed, 1 something did, 2 could not compare: a file is
no saved run, or nothing changed of what could be compared. What the first run
was not to look at (a GPU, with accelerator cpu) is named and leaves the 0.`,
		Args: arguments(2, 2, "needs two files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", format, changeFormats); err != nil {
				return err
			}
			if err := readOnce(args[0], args[1]); err != nil {
				return err
			}
			before, err := readReport(args[0])
			if err != nil {
				return err
			}
			after, err := readReport(args[1])
			if err != nil {
				return err
			}
			changed := report.Changed{
				Schema: checks.Schema, Changes: checks.Changes(before.Fleet, after.Fleet), NotCompared: checks.Unseen(before.Fleet, after.Fleet),
			}
			if err := printChanges(changed, format); err != nil {
				return err
			}
			switch {
			case len(changed.Changes) > 0:
				return exitCode(exitFail)
			case slices.ContainsFunc(changed.NotCompared, func(n checks.NotCompared) bool { return !n.ByChoice }):
				return exitCode(exitTrouble)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "what to print: "+strings.Join(changeFormats, ", "))
	return cmd
}

func printChanges(changed report.Changed, format string) error {
	switch format {
	case "json":
		return report.JSON(os.Stdout, changed)
	case "markdown":
		return ci.ChangesMarkdown(os.Stdout, changed)
	}
	return report.ChangesText(os.Stdout, changed, outputs.TerminalStyle(os.Stdout))
}
