// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"preflight"
	"preflight/cmd/preflight/internal/progress"
	"preflight/cmd/preflight/internal/usage"
	"preflight/internal/secret"
	"preflight/report"
)

func rendezvousCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rendezvous HOST:PORT [-H hostfile]",
		Short: "Test the address where the ranks meet",
		Long: `Test the address where the ranks meet. rendezvous reports one of these
results:

  - nothing listens at the address
  - a firewall blocks the address
  - a torch store answers, with the version that it has
  - another service answers

With a hostfile, every node runs the same test. Each node also reports how it resolves the
name, which interface it uses, and which of the job's processes it runs (see preflight
hang).

rendezvous uses torch's own counters to find out how many ranks have joined and when
each torchrun launcher last reported. It never changes the store. If the nodes run another
preflight's tests, rendezvous waits until those have finished.

Exit codes: 0 a torch store answers every machine that tests the address, 1 the store does
not answer every machine or some of the job's ranks are missing, 2 rendezvous could not
tell.`,
		Example: `  preflight rendezvous w1:29500
  preflight rendezvous w1:29500 -H hostfile`,
		ValidArgsFunction: completeEndpoint,
		Args:              cobra.MatchAll(arguments(1, 1, "needs one HOST:PORT"), validEndpoint),
		RunE: configured(func(cmd *cobra.Command, config Config, args []string) error {
			began := time.Now()
			job, closeJob, err := config.callers(cmd.Context())
			if err != nil {
				return err
			}
			defer closeJob()
			seen := preflight.AskEndpoint(cmd.Context(), job, args[0])
			closeJob()
			secret.Within(&seen)
			seen.Version, seen.Seconds = Version, time.Since(began).Seconds()
			return printAnswer(config.Format, seen, report.EndpointText, seen.ExitCode)
		}),
	}
	launchFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	formatFlag(cmd, plainFormats...)
	cmd.Flags().BoolP("quiet", "q", false, "show no progress")
	showOnly(cmd, "hostfile", "hosts", "include", "exclude", "ssh_port", "timeout", "format", "progress", "quiet")
	return cmd
}

// callers returns the job with the nodes that test the endpoint. The job has no nodes if the user
// named none.
func (c Config) callers(ctx context.Context) (preflight.Job, func(), error) {
	if c.Hostfile != "" || c.Hosts != "" {
		return c.job(ctx, nil)
	}
	shown := progress.Start(c.Progress, c.Quiet)
	return preflight.Job{Progress: shown.Take}, sync.OnceFunc(shown.Stop), nil
}

func validEndpoint(_ *cobra.Command, args []string) error {
	const example = "write it like w1:29500, 10.0.0.1:29500 or [fd00::1]:29500"
	host, port, err := net.SplitHostPort(args[0])
	if err == nil && host == "" {
		err = errors.New("the host is missing")
	}
	if number, notNumber := strconv.Atoi(port); err == nil && (notNumber != nil || number < 1 || number > 65535) {
		err = fmt.Errorf("%q is not a TCP port", port)
	}
	if err != nil {
		return usage.WithHint(fmt.Errorf("%q is not HOST:PORT: %w", args[0], err), example)
	}
	return nil
}
