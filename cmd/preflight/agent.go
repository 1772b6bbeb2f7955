package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"preflight/fleet/agent"
	"preflight/probe/nvml"
	"preflight/remote"
)

// agentCommand is what the binary does on a node; nobody types it.
func agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "agent", Short: "Answer the launching machine", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Signals meant for the login must not cut an answer short: the end
			// of stdin is what ends an agent.
			return agent.Run(context.WithoutCancel(cmd.Context()), os.Stdin, os.Stdout)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "install DIR HASH", Short: "Take one's place in a private directory", Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return remote.Install(args[0], args[1]) },
	})
	cmd.AddCommand(&cobra.Command{
		Use: "nvml", Short: "Ask NVIDIA's driver, for the agent", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { nvml.Serve(os.Stdout) },
	})
	return cmd
}
