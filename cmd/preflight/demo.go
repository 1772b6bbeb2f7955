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

// recordedRun is a run over the demo's cluster (preflight demo -o json=demo.json),
// for machines that cannot raise one.
//
//go:embed demo.json
var recordedRun []byte

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Raise a small broken cluster on this very machine and report on it",
		Long: `Raise eight hosts on this very machine, each in namespaces of its own with a
real sshd, plant eight faults, and run the main job against them over ssh.
Needs root and Linux; elsewhere a recording of that cluster is judged instead.

With --smoke the hosts have stand-ins of two GPUs each, and the faults are two that nothing
shows but computing and talking: a GPU that computes wrong, and an NCCL that never meets
others.`,
		Example: `  preflight demo -o html=demo.html --good-hosts good --bad-hosts bad
  preflight demo --smoke`,
		Args: cobra.NoArgs,
		RunE: configured(func(cmd *cobra.Command, config Config, _ []string) error {
			// Lists that a configuration asks for are of the team's own cluster.
			config.GoodHosts, config.BadHosts = cmd.Flag(formats.GoodHosts).Value.String(), cmd.Flag(formats.BadHosts).Value.String()
			if err := config.writable(outputs.Run(), nil); err != nil {
				return err
			}
			reason := cannotRaise()
			switch {
			case reason != "" && config.Smoke != smokeNone:
				return errors.New(reason + ", and of --smoke there is no recording")
			case reason != "":
				return recordedDemo(config, reason)
			}
			return demo(cmd.Context(), config)
		}),
	}
	outputFlags(cmd, formats.Names())
	hostListFlags(cmd.Flags())
	smokeFlag(cmd.Flags(), "break what only computing and talking shows, and have it isolated")
	return cmd
}

func recordedDemo(config Config, reason string) error {
	fmt.Fprintf(os.Stderr, "%s\nnot raised: eight hosts with faults; judging a recording of them instead\n\n", reason)
	saved, err := report.Read(bytes.NewReader(recordedRun))
	if err != nil {
		return err
	}
	return config.write(rejudge(saved, checks.DefaultPolicy()))
}
