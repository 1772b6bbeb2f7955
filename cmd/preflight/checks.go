package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"preflight/checks/catalogue"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/policyfile"
	"preflight/cmd/preflight/internal/usage"
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
