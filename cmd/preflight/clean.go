// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight"
	"preflight/cmd/preflight/internal/progress"
	"preflight/fleet"
	"preflight/internal/text"
)

func cleanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clean -H hostfile",
		Short: "Remove preflight's cached agent from every node",
		Args:  noArguments,
		RunE: configured(func(cmd *cobra.Command, config Config, _ []string) error {
			config.cleans = true
			job, closeJob, err := config.job(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer closeJob()
			lines, failures := cleanAll(cmd.Context(), job)
			closeJob()
			if failed := printCleaned(lines, failures); failed > 0 {
				fmt.Fprintf(os.Stderr, "preflight: %d of %d nodes could not be cleaned\n", failed, len(job.Plan.Prediction.Hosts))
				return exitCode(exitTrouble)
			}
			return nil
		}),
	}
	launchFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	cmd.Flags().BoolP("quiet", "q", false, "show no progress")
	showOnly(cmd, "hostfile", "hosts", "include", "exclude", "via", "in", "ssh_port", "timeout", "progress", "quiet")
	return cmd
}

// showOnly hides all flags of a command except the named ones. The hidden flags describe a launch.
// The command accepts them, so that a user can reuse the command line of a run, but ignores them.
func showOnly(cmd *cobra.Command, names ...string) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = !slices.Contains(names, flag.Name) })
}

// cleanAll cleans every node. It returns what it removed and what went wrong, both in hostfile
// order.
func cleanAll(ctx context.Context, job preflight.Job) (lines []string, failures []error) {
	lines = make([]string, len(job.Plan.Prediction.Hosts))
	failures = make([]error, len(lines))
	job.Progress(fleet.Event{Phase: progress.Cleaning, Step: fleet.Began, Nodes: len(lines)})
	var all sync.WaitGroup
	atOnce, short := job.Remote.Fit(job.Plan.Prediction.HostNames(), false, fleet.AtOnce)
	places := make(chan struct{}, atOnce)
	for i, host := range job.Plan.Prediction.Hosts {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if short != nil {
				failures[i] = fmt.Errorf("%s: %w", host.Name, short.Err)
				return
			}
			ctx, cancel := context.WithTimeout(ctx, job.Timeout)
			defer cancel()
			job.Progress(fleet.Event{Phase: progress.Cleaning, Step: fleet.Began, Node: host.Name})
			removed, _, err := job.Remote.Clean(ctx, host.Name)
			gone := text.Map(removed, func(path string) string { return text.Escape(host.Name + ": removed " + path) })
			lines[i], failures[i] = cmp.Or(strings.Join(gone, "\n"), text.Escape(host.Name)+": nothing to remove"), err
			end := fleet.Event{Phase: progress.Cleaning, Step: fleet.Ended, Node: host.Name}
			if err != nil {
				end.Step, end.Err = fleet.Lost, err
			}
			job.Progress(end)
		})
	}
	all.Wait()
	return lines, failures
}

// printCleaned prints what was removed from each node, and returns the number of failed nodes.
func printCleaned(lines []string, failures []error) (failed int) {
	for i, err := range failures {
		if err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "preflight: %s\n", printable(err.Error()))
			continue
		}
		fmt.Println(lines[i])
	}
	return failed
}
