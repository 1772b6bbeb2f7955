package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"preflight"
	"preflight/checks"
	"preflight/report"
)

// snapshotCommand saves facts to compare with later.
func snapshotCommand() *cobra.Command {
	var normalize bool
	cmd := &cobra.Command{
		Use:   "snapshot {-H hostfile | -- deepspeed … train.py …} -o golden.json",
		Short: "Save the facts of every node, to judge or compare later",
		Args:  commandOnly,
		RunE: func(cmd *cobra.Command, command []string) error {
			config, err := readConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if err := commandDecides(cmd, command); err != nil {
				return err
			}
			config.Format, config.GoodHosts, config.BadHosts = "json", "", "" // nothing is judged
			began := time.Now()
			job, closeJob, err := config.job(cmd.Context(), command)
			if err != nil {
				return err
			}
			defer closeJob()
			if err := config.writable([]string{"json"}, map[string]string{"the hostfile": job.Plan.Hostfile}); err != nil {
				return err
			}
			progress := startProgress(config)
			job.Progress = progress.hear
			fleet, prediction := preflight.Look(cmd.Context(), job)
			progress.stop()
			saved := checks.Evaluate(nil, fleet, prediction, checks.Policy{})
			saved.Version, saved.Hostfile = Version, config.source(job.Plan)
			saved.Began, saved.Seconds = began.UTC().Format(time.RFC3339), time.Since(began).Seconds()
			saved.Verdict, saved.ExitCode = checks.Pass, exitPass
			lost := 0
			for _, node := range fleet.Nodes {
				if !node.Reached {
					lost++
				}
			}
			if lost > 0 {
				saved.Verdict, saved.ExitCode = checks.Unknown, exitTrouble
			}
			write := config.write
			if normalize {
				write = config.writeNormalized
			}
			if err := write(saved); err != nil {
				return err
			}
			if lost > 0 {
				fmt.Fprintf(os.Stderr, "preflight: the snapshot lacks %d of %d nodes that were not reached\n", lost, len(fleet.Nodes))
			}
			return verdictCode(saved)
		},
	}
	launchFlags(cmd.Flags())
	drillFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	cmd.Flags().StringArrayP("output", "o", nil, "`file` to write (default: standard output)")
	cmd.Flags().BoolP("quiet", "q", false, "no progress")
	cmd.Flags().BoolVar(&normalize, "normalize", false, "leave out what changes by itself, and sort: a file to commit and review")
	return cmd
}

// writeNormalized writes a snapshot that is the same until somebody changes a node.
func (c Config) writeNormalized(saved checks.Report) error {
	return c.deliver(c.outputs(), func(w io.Writer, _ string, _ report.Style) error {
		return report.Normalized(w, saved)
	})
}

// judgeCommand judges a saved run again.
func judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge FILE",
		Short: "Judge a saved run again, offline",
		Args:  arguments(1, 1, "needs one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := readConfig(cmd.Flags())
			if err != nil {
				return err
			}
			policy, err := config.policy()
			if err != nil {
				return err
			}
			saved, err := readReport(args[0])
			if err != nil {
				return err
			}
			if err := config.writable(reportFormats, map[string]string{"the run that is judged": args[0], "the baseline": config.Baseline}); err != nil {
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
themselves (load, free memory) are left out.

Exit codes: 0 nothing changed, 1 something did, 2 could not compare.`,
		Args: arguments(2, 2, "needs two files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", format, changeFormats); err != nil {
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
			changes := checks.Changes(before.Fleet, after.Fleet)
			if err := printChanges(changes, format); err != nil {
				return err
			}
			if len(changes) > 0 {
				return exitCode(exitFail)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "what to print: "+strings.Join(changeFormats, ", "))
	return cmd
}

func printChanges(changes []checks.Change, format string) error {
	switch format {
	case "json":
		return report.JSON(os.Stdout, report.Changed{Schema: checks.Schema, Changes: changes})
	case "markdown":
		return report.ChangesMarkdown(os.Stdout, changes)
	}
	return report.ChangesText(os.Stdout, changes, terminalStyle(os.Stdout))
}
