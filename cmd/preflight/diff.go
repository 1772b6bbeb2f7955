package main

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/report"
	"preflight/report/ci"
)

// diffCommand compares two saved runs.
func diffCommand() *cobra.Command {
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
				Schema: checks.Schema, Changes: agreement.Changes(before.Fleet, after.Fleet), NotCompared: agreement.Unseen(before.Fleet, after.Fleet),
			}
			if err := printChanges(changed, cmd.Flag("format").Value.String()); err != nil {
				return err
			}
			switch {
			case len(changed.Changes) > 0:
				return exitCode(exitFail)
			case slices.ContainsFunc(changed.NotCompared, func(n agreement.NotCompared) bool { return !n.ByChoice }):
				return exitCode(exitTrouble)
			}
			return nil
		},
	}
	formatFlag(cmd, "text", "json", "markdown")
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
