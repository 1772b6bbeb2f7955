package main

import (
	"os"

	"github.com/spf13/cobra"

	"preflight/checks/agreement"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/report"
)

// factsCommand lists what a policy can state.
func factsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "facts",
		Short: "List the facts that a policy can state",
		Long: `List the facts that preflight.yaml can state, and what of each: these are the names
that preflight diff, preflight -v and the JSON report print. A * stands for the name
of an entry, as of an interface or a package.`,
		Args: arguments(0, 0, "takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flag("format").Value.String() == "markdown" {
				return report.FactNamesMarkdown(os.Stdout, agreement.Stateable())
			}
			return report.FactNames(os.Stdout, agreement.Stateable(), outputs.TerminalStyle(os.Stdout))
		},
	}
	formatFlag(cmd, "text", "markdown")
	return cmd
}
