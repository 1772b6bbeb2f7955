package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight"
	"preflight/report"
)

// cleanCommand removes our cached binary from the nodes.
func cleanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clean -H hostfile",
		Short: "Remove preflight's cached binary from every node",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := readConfig(cmd.Flags())
			if err != nil {
				return err
			}
			job, closeJob, err := config.job(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer closeJob()
			if failed := cleanAll(cmd.Context(), job); failed > 0 {
				fmt.Fprintf(os.Stderr, "preflight: %d of %d nodes could not be cleaned\n", failed, len(job.Plan.Prediction.Hosts))
				return exitCode(exitTrouble)
			}
			return nil
		},
	}
	launchFlags(cmd.Flags())
	showOnly(cmd, "hostfile", "hosts", "include", "exclude", "ssh_port", "timeout")
	return cmd
}

// showOnly hides a command's other flags. They are a launch's: taken, so that
// its line can be used as it is, but they change nothing here.
func showOnly(cmd *cobra.Command, names ...string) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = !slices.Contains(names, flag.Name) })
}

// cleanAll cleans every node, says in hostfile order what happened, and
// counts the nodes where it did not work.
func cleanAll(ctx context.Context, job preflight.Job) int {
	lines := make([]string, len(job.Plan.Prediction.Hosts))
	failures := make([]error, len(lines))
	var all sync.WaitGroup
	places := make(chan struct{}, preflight.AtOnce)
	for i, host := range job.Plan.Prediction.Hosts {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, job.Timeout)
			defer cancel()
			removed, _, err := job.Remote.Clean(ctx, host.Name)
			lines[i], failures[i] = fmt.Sprintf("%s: nothing there", report.Escape(host.Name)), err
			for n, path := range removed {
				if n == 0 {
					lines[i] = ""
				} else {
					lines[i] += "\n"
				}
				lines[i] += fmt.Sprintf("%s: removed %s", report.Escape(host.Name), report.Escape(path))
			}
		})
	}
	all.Wait()
	failed := 0
	for i, err := range failures {
		if err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "preflight: %s\n", report.Escape(err.Error()))
			continue
		}
		fmt.Println(lines[i])
	}
	return failed
}
