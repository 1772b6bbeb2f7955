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
		Short: "Find the rank for which a hanging job waits",
		Long: `Find out why a running job hangs, whichever launcher started it. hang reports:

  - nodes on which none of the job's processes is running
  - ranks with a different master address, port, world size or run ID
  - ranks that have exited or are stopped
  - ranks that get no answer from the rendezvous
  - ranks that are still compiling or loading
  - the rank for which the others wait, if all ranks have met and nothing moves

For the last one, hang watches the ranks for two seconds: what each waits for, its CPU time, and
how much data its connections and files carry. hang also asks NCCL's RAS service, which NCCL 2.24 and
newer have. If nothing moves, or with --stacks, hang also reads at which line of Python each rank
is, on nodes with py-spy ("pip install py-spy"). hang stops and signals no process, and reads no
values of variables. To see another user's ranks, log in as that user or as root.

Exit codes: 0 the job moves or has just started, 1 a rank or node is missing, misconfigured or
keeps the others waiting, 2 the result is unknown or no job was found.`,
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
			seen := preflight.Hang(cmd.Context(), job, stacks)
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
	cmd.Flags().BoolVar(&stacks, "stacks", false, "also show the Python stacks of the ranks, on nodes that have py-spy")
	showOnly(cmd, "hostfile", "hosts", "include", "exclude", "ssh_port", "timeout", "format", "progress", "quiet", "stacks", "via", "in")
	return cmd
}
