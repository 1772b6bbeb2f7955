package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/explain"
	"preflight/report"
)

// causesCommand prints what explain knows as documentation.
func causesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "causes [ID]",
		Short: "List what launches die of, or explain one cause",
		Args:  arguments(0, 1, "takes one cause at most"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return causeIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format := cmd.Flag("format").Value.String()
			catalogue, err := explain.Load()
			if err != nil {
				return err
			}
			style := outputs.TerminalStyle(os.Stdout)
			switch {
			case format == "markdown":
				return report.CausesMarkdown(os.Stdout, catalogue)
			case format == "messages":
				return report.MessagesMarkdown(os.Stdout, catalogue)
			case len(args) == 0:
				return report.Causes(os.Stdout, catalogue, style)
			}
			cause, known := catalogue.Lookup(args[0])
			if !known {
				return usage.WithHint(fmt.Errorf("unknown cause %q%s", args[0], usage.Nearest(args[0], causeIDs())), "preflight causes lists them")
			}
			return report.Cause(os.Stdout, catalogue, cause, style)
		},
	}
	formatFlag(cmd, "text", "markdown", "messages")
	cmd.Flag("format").Usage += " (an index from messages to causes)"
	return cmd
}

func causeIDs() []string {
	catalogue, err := explain.Load()
	if err != nil {
		return nil
	}
	var ids []string
	for _, cause := range catalogue.Causes {
		ids = append(ids, cause.ID)
	}
	return ids
}
