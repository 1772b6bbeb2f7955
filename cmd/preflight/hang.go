// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/cobra"

	"preflight"
	"preflight/internal/secret"
	"preflight/report"
)

func hangCommand() *cobra.Command {
	var stacks bool
	cmd := &cobra.Command{
		Use:   "hang -H hostfile",
		Short: "Find the missing ranks of a job that hangs",
		Long: `Find out why a running job hangs, whichever launcher started it. hang reports:

  - nodes on which none of the job's processes is running
  - ranks with a different master address, port, world size or run ID
  - ranks that have exited or are stopped
  - ranks that get no answer from the rendezvous
  - ranks that are still compiling or loading

hang reads only /proc and torch's build locks. It does not signal or trace any process. To
see another user's ranks, log in as that user or as root. With --stacks, hang also prints
Python stacks from nodes that have py-spy, without stopping any process.

Exit codes: 0 no fault was found (the job may just be slow), 1 a rank or node is missing or
misconfigured, 2 the result is unknown or no job was found.`,
		Example: `  preflight hang -H hostfile
  preflight hang -H hostfile --stacks
  preflight hang -w 'node[01-16]' --format json`,
		Args: noArguments,
		RunE: configured(func(cmd *cobra.Command, config Config, _ []string) error {
			began := time.Now()
			job, closeJob, err := config.job(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer closeJob()
			seen := preflight.Hang(cmd.Context(), job)
			if stacks {
				preflight.ReadStacks(cmd.Context(), job, &seen)
			}
			closeJob()
			secret.Within(&seen)
			seen.Version, seen.Seconds = Version, time.Since(began).Seconds()
			return printAnswer(config.Format, seen, report.HangText, seen.ExitCode)
		}),
	}
	launchFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	formatFlag(cmd, plainFormats...)
	cmd.Flags().BoolP("quiet", "q", false, "show no progress")
	cmd.Flags().BoolVar(&stacks, "stacks", false, "also show the Python stacks of ranks on nodes that have py-spy")
	showOnly(cmd, "hostfile", "hosts", "include", "exclude", "ssh_port", "timeout", "format", "progress", "quiet", "stacks", "via", "in")
	return cmd
}
