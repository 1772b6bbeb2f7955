package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"preflight/cmd/preflight/internal/usage"
	"preflight/fleet/agent"
	"preflight/probe/nvml"
	"preflight/remote"
)

// agentCommand is what the binary does on a node; nobody types it.
func agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "agent [FILE]", Short: "Answer the launching machine", Hidden: true, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, _ []string) error {
			remote.Arrive()
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

// manCommand writes the manual, a page for every command that has help. Packages call
// it; nobody types it. The date on the pages is SOURCE_DATE_EPOCH where that is set, so
// that one commit makes the same pages every day.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages", Hidden: true, Args: arguments(1, 1, "needs one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
				return usage.WithHint(errors.New(args[0]+" is not a directory"), "mkdir -p %s", args[0])
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it would tell the day they were written on, and who wrote cobra
			return manual(root, doc.GenManHeader{
				Section: "1", Source: "preflight " + Version, Manual: "Distributed training",
			}, args[0])
		},
	}
}
