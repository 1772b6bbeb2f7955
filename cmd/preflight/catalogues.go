// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/checks/knownbad"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/policyfile"
	"preflight/cmd/preflight/internal/usage"
	"preflight/explain"
	"preflight/report"
)

// documenting makes a command print a catalogue in one of the formats. If an ID is given, the
// command prints that entry, otherwise all entries.
func documenting(cmd *cobra.Command, ids func() []cobra.Completion, print func(format string, id []string, style report.Style) error, formats ...string) *cobra.Command {
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return ids(), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, id []string) error {
		return print(cmd.Flag("format").Value.String(), id, outputs.TerminalStyle(os.Stdout))
	}
	formatFlag(cmd, formats...)
	return cmd
}

func checksCommand() *cobra.Command {
	return documenting(&cobra.Command{
		Use:   "checks [ID]",
		Short: "List the checks, or describe one",
		Args:  arguments(0, 1, "takes one check at most"),
	}, checkIDs, func(format string, id []string, style report.Style) error {
		switch {
		case format == "markdown":
			return report.CatalogueMarkdown(os.Stdout, catalogue.Catalogue)
		case len(id) == 0:
			return report.Catalogue(os.Stdout, catalogue.Catalogue, style)
		}
		check, known := catalogue.Lookup(id[0])
		if !known {
			return usage.WithHint(errors.New(policyfile.NoCheck(id[0])), "preflight checks lists the checks")
		}
		if err := report.Check(os.Stdout, check, style); err != nil || check.ID != knownbad.KnownBad.ID {
			return err
		}
		return report.KnownBad(os.Stdout, knownbad.List(), style)
	}, "text", "markdown")
}

func causesCommand() *cobra.Command {
	cmd := documenting(&cobra.Command{
		Use:   "causes [ID]",
		Short: "List the causes that explain knows, or describe one",
		Args:  arguments(0, 1, "takes one cause at most"),
	}, causeIDs, func(format string, id []string, style report.Style) error {
		causes, err := explain.Load()
		switch {
		case err != nil:
			return err
		case format == "markdown":
			return report.CausesMarkdown(os.Stdout, causes)
		case format == "messages":
			return report.MessagesMarkdown(os.Stdout, causes)
		case len(id) == 0:
			return report.Causes(os.Stdout, causes, style)
		}
		cause, known := causes.Lookup(id[0])
		if !known {
			return usage.WithHint(fmt.Errorf("unknown cause %q%s", id[0], usage.Nearest(id[0], causeIDs())), "preflight causes lists the causes")
		}
		return report.Cause(os.Stdout, causes, cause, style)
	}, "text", "markdown", "messages")
	cmd.Flag("format").Usage += " (messages is an index of error messages with their causes)"
	return cmd
}

func causeIDs() (ids []string) {
	if causes, err := explain.Load(); err == nil {
		for _, cause := range causes.Causes {
			ids = append(ids, cause.ID)
		}
	}
	return ids
}

func factsCommand() *cobra.Command {
	return documenting(&cobra.Command{
		Use:   "facts",
		Short: "List the facts that preflight.yaml can require",
		Long: `List the facts that preflight.yaml can require, and the type of each value. The JSON
report, preflight diff and preflight -v use the same names. A * stands for any name, such
as the name of an interface or a package.`,
		Args: arguments(0, 0, "takes no arguments"),
	}, func() []string { return nil }, func(format string, _ []string, style report.Style) error {
		if format == "markdown" {
			return report.FactNamesMarkdown(os.Stdout, agreement.Stateable())
		}
		return report.FactNames(os.Stdout, agreement.Stateable(), style)
	}, "text", "markdown")
}
