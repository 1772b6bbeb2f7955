// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/report"
	"preflight/report/formats"
)

// recordedRun is a run of the demo's cluster (preflight demo -o json=demo.json). Machines that
// cannot start the demo's hosts show it instead.
//
//go:embed demo.json
var recordedRun []byte

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a small broken cluster on this machine, and check it",
		Long: `Start eight hosts on this machine, each with its own network, /dev/shm and sshd. demo
breaks each host in a different way, and checks all of them over ssh. demo needs root and
Linux. Otherwise, it replays a recorded run.

With --smoke, each host has two simulated GPUs, and two faults appear only under load: a
GPU that computes wrong results, and an NCCL library that never finds the other ranks.`,
		Example: `  preflight demo -o html=demo.html --good-hosts good --bad-hosts bad
  preflight demo --smoke`,
		Args: cobra.NoArgs,
		RunE: configured(func(cmd *cobra.Command, config Config, _ []string) error {
			// Host lists from a configuration file belong to the team's own cluster, so only the
			// flags count.
			config.GoodHosts, config.BadHosts = cmd.Flag(formats.GoodHosts).Value.String(), cmd.Flag(formats.BadHosts).Value.String()
			if err := config.writable(outputs.Run(), nil); err != nil {
				return err
			}
			reason := cannotRaise()
			switch {
			case reason != "" && config.Smoke != smokeNone:
				return errors.New(reason + "; there is no recorded run of --smoke")
			case reason != "":
				return recordedDemo(config, reason)
			}
			return demo(cmd.Context(), config)
		}),
	}
	outputFlags(cmd, formats.Names())
	hostListFlags(cmd.Flags())
	smokeFlag(cmd.Flags(), "add faults that appear only under load, and find the nodes that have them")
	return cmd
}

func recordedDemo(config Config, reason string) error {
	fmt.Fprintf(os.Stderr, "%s\nThe eight hosts were not started. This is the report of a recorded run.\n\n", reason)
	saved, err := report.Read(bytes.NewReader(recordedRun))
	if err != nil {
		return err
	}
	return config.write(rejudge(saved, checks.DefaultPolicy()))
}
