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
		Short: "Say who is missing from a job that hangs now, and what the others wait in",
		Long: `Say of a job that hangs on the nodes of a hostfile who is missing: nodes without
a process of it, ranks that were told another address, port, size or run ID,
ranks that have ended, are stopped, call and get no answer, compile or load. It
is found by what runs there, whichever launcher has started it. Of processes
only /proc is read, and the locks of ops that torch builds: nobody is signalled, traced
or called. Ranks of another user need that user's login, or root's. --stacks has
py-spy, where a node has it, read where the Python of the named ranks is; none is
stopped for it.

Exit codes: 0 nothing is wrong but patience, 1 somebody is missing or wrong,
2 could not tell, or no job was found.`,
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
			return answer(config.Format, seen, report.HangText, seen.ExitCode)
		}),
	}
	launchFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	formatFlag(cmd, plainFormats...)
	cmd.Flags().BoolP("quiet", "q", false, "no progress")
	cmd.Flags().BoolVar(&stacks, "stacks", false, "show where the Python of the ranks is that the answer names, as py-spy of their node sees it")
	showOnly(cmd, "hostfile", "hosts", "include", "exclude", "ssh_port", "timeout", "format", "progress", "quiet", "stacks", "via", "in")
	return cmd
}
