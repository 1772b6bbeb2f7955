package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"preflight"
	"preflight/checks"
	"preflight/report"
)

// snapshotCommand saves facts to compare with later.
func snapshotCommand() *cobra.Command {
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
			if err := config.writable(job.Plan.Hostfile, []string{"json"}); err != nil {
				return err
			}
			progress := startProgress(config, len(job.Plan.Prediction.Hosts))
			job.Progress = progress.step
			fleet, prediction := preflight.Look(cmd.Context(), job)
			progress.stop()
			saved := checks.Evaluate(nil, fleet, prediction, checks.Policy{})
			saved.Version, saved.Hostfile = Version, config.source(job.Plan)
			saved.Seconds = time.Since(began).Seconds()
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
			if err := config.write(saved); err != nil {
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
	cmd.Flags().StringArrayP("output", "o", nil, "`file` to write (default: standard output)")
	cmd.Flags().BoolP("quiet", "q", false, "no progress")
	return cmd
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
			if err := config.writable("", reportFormats); err != nil {
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
	return cmd
}

// rejudge judges the facts of a saved run by today's catalogue. That the run was
// interrupted stays true.
func rejudge(saved checks.Report, policy checks.Policy) checks.Report {
	judged := checks.Evaluate(checks.Catalogue, saved.Fleet, saved.Launch, policy)
	judged.Version, judged.Hostfile, judged.Seconds = Version, saved.Hostfile, saved.Seconds
	judged.Interrupted = saved.Interrupted
	judged.Conclude(policy.Strict)
	return judged
}

// diffCommand compares two saved runs.
func diffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Say what changed between two saved runs",
		Long: `Say what changed between two saved runs, fact by fact: nodes that came or went,
and every value that is not the same any more. Values that change by
themselves (load, free memory) are left out.

Exit codes: 0 nothing changed, 1 something did, 2 could not compare.`,
		Args: arguments(2, 2, "needs two files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := readReport(args[0])
			if err != nil {
				return err
			}
			after, err := readReport(args[1])
			if err != nil {
				return err
			}
			changes := checks.Changes(before.Nodes, after.Nodes)
			if err := report.ChangesText(os.Stdout, changes, terminalStyle(os.Stdout)); err != nil {
				return err
			}
			if len(changes) > 0 {
				return exitCode(exitFail)
			}
			return nil
		},
	}
}
