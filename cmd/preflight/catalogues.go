package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/policyfile"
	"preflight/cmd/preflight/internal/usage"
	"preflight/explain"
	"preflight/report"
)

// checksCommand prints the catalogue as documentation.
func checksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checks [ID]",
		Short: "List the checks, or explain one",
		Args:  arguments(0, 1, "takes one check at most"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return checkIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format := cmd.Flag("format").Value.String()
			style := outputs.TerminalStyle(os.Stdout)
			switch {
			case format == "markdown":
				return report.CatalogueMarkdown(os.Stdout, catalogue.Catalogue)
			case len(args) == 0:
				return report.Catalogue(os.Stdout, catalogue.Catalogue, style)
			}
			check, known := catalogue.Lookup(args[0])
			if !known {
				return usage.WithHint(errors.New(policyfile.NoCheck(args[0])), "preflight checks lists them")
			}
			return report.Check(os.Stdout, check, style)
		},
	}
	formatFlag(cmd, "text", "markdown")
	return cmd
}

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
