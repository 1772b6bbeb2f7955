package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"preflight/checks/catalogue"
	"preflight/cmd/preflight/internal/progress"
	"preflight/launch"
	"preflight/report/formats"
)

// The values that flags of a fixed choice take.
var (
	rendezvousModes = []string{launch.RendezvousDeepSpeed, launch.RendezvousStatic, launch.RendezvousC10d}
	accelerators    = []string{"auto", "cuda", "cpu"}
	plainFormats    = []string{"text", "json"} // of what is no judgement on a fleet
)

// formatFlag adds the flag of a command that prints in these formats: the first one unless
// another is asked for.
func formatFlag(cmd *cobra.Command, names ...string) {
	cmd.Flags().Var(&choice{names[0], names}, "format", "what to print: "+strings.Join(names, ", "))
	if err := cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("preflight: " + err.Error()) // registered twice
	}
}

// writesReports is whether a command writes runs in every format, so that the output that
// the configuration file or the environment asks for is meant of it.
func writesReports(cmd *cobra.Command) bool {
	return slices.Contains([]string{"preflight", "judge", "demo"}, cmd.Name())
}

func completeFlags(cmd *cobra.Command) {
	for name, complete := range map[string]cobra.CompletionFunc{
		"only":        completeCheckList,
		"skip":        completeCheckList,
		"launcher":    cobra.FixedCompletions(launch.LauncherNames(), cobra.ShellCompDirectiveNoFileComp),
		"rendezvous":  cobra.FixedCompletions(rendezvousModes, cobra.ShellCompDirectiveNoFileComp),
		"accelerator": cobra.FixedCompletions(accelerators, cobra.ShellCompDirectiveNoFileComp),
		"progress":    cobra.FixedCompletions(progress.Modes, cobra.ShellCompDirectiveNoFileComp),
		"output":      completeOutputs,
	} {
		if cmd.Flags().Lookup(name) == nil {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic("preflight: " + err.Error()) // registered twice
		}
	}
}

// checkIDs are the catalogue's IDs with their titles, as the shell shows them.
func checkIDs() []cobra.Completion {
	var ids []cobra.Completion
	for _, check := range catalogue.Catalogue {
		ids = append(ids, cobra.CompletionWithDesc(check.ID, check.Title))
	}
	return ids
}

// completeCheckList completes the last of several IDs joined by commas.
func completeCheckList(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ids := checkIDs()
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	for i := range ids {
		ids[i] = before + ids[i]
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeOutputs completes the format of the last of several FORMAT=FILE; where none
// fits, the shell completes a file.
func completeOutputs(_ *cobra.Command, _ []string, typed string) (pairs []cobra.Completion, _ cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	for _, format := range formats.Names() {
		pairs = append(pairs, before+format+"=")
	}
	return pairs, cobra.ShellCompDirectiveNoSpace
}

// strictCompletion makes cobra's own command refuse a shell it does not know:
// it would print its help instead, which a shell then takes for a script.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			var shells []string
			for _, shell := range cmd.Commands() {
				shells = append(shells, shell.Name())
			}
			return fmt.Errorf("completion is not written for %q: it is for %s", args[0], strings.Join(shells, ", "))
		}
	}
}
