// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/drill/smoke"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/remote/kubectl"
	"preflight/remote/srun"
	"preflight/report/formats"
)

// The values that flags of a fixed choice take.
var (
	rendezvousModes = []string{launch.RendezvousDeepSpeed, launch.RendezvousStatic, launch.RendezvousC10d}
	accelerators    = []string{"auto", "cuda", "cpu"}
	smokeEngines    = []string{smokeNone, smokeAuto, smoke.Torch, smoke.Direct}
	plainFormats    = []string{"text", "json"} // of what is no judgement on a fleet
)

// What --smoke is without an engine: not given, and given without one.
const smokeNone, smokeAuto = "none", "auto"

// formatFlag adds the flag of a command that prints in these formats: the first one unless
// another is asked for.
func formatFlag(cmd *cobra.Command, names ...string) {
	cmd.Flags().String("format", names[0], "print "+orList(names))
	cmd.Flag("format").Annotations = map[string][]string{formatsKey: names}
	if err := cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("preflight: " + err.Error()) // registered twice
	}
}

// orList joins words: "text, json or markdown".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// writesReports is whether a command writes runs in every format, so that the output that
// the configuration file or the environment asks for is meant of it.
func writesReports(cmd *cobra.Command) bool {
	return slices.Contains([]string{"preflight", "judge", "demo"}, cmd.Name())
}

// completeFlags has every flag of a command complete its values: those of a fixed choice by
// that, and files only where a file is meant.
func completeFlags(cmd *cobra.Command) {
	known := rules()
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, own := cmd.GetFlagCompletionFunc(flag.Name); own {
			return
		}
		complete, rule := completions[flag.Name], known[strings.ReplaceAll(flag.Name, "-", "_")]
		switch {
		case complete != nil:
		case rule.choices != nil:
			complete = cobra.FixedCompletions(rule.choices, cobra.ShellCompDirectiveNoFileComp)
		case rule.isPath || slices.Contains(otherPaths, flag.Name):
			return
		default:
			complete = cobra.NoFileCompletions
		}
		if err := cmd.RegisterFlagCompletionFunc(flag.Name, complete); err != nil {
			panic("preflight: " + err.Error()) // registered twice
		}
	})
}

// otherPaths are flags that take a file and are no settings, or not always a file.
var otherPaths = []string{"from", "python"}

// completions are those of flags whose values are many.
var completions = map[string]cobra.CompletionFunc{
	"hosts":         completeHosts(","),
	"include":       completeHosts("@"),
	"exclude":       completeHosts("@"),
	"master_addr":   completeHost,
	"rdzv-endpoint": completeHost,
	"job":           completeJob,
	"accept":        completeFacts,
	"only":          completeCheckList,
	"skip":          completeCheckList,
	"accelerator":   cobra.FixedCompletions(accelerators, cobra.ShellCompDirectiveNoFileComp),
	"output":        completeOutputs,
}

// checkIDs are the catalogue's IDs with their titles, as the shell shows them.
func checkIDs() []cobra.Completion {
	var ids []cobra.Completion
	for _, check := range catalogue.Catalogue {
		ids = append(ids, cobra.CompletionWithDesc(check.ID, check.Text().Title))
	}
	return ids
}

// another completes the last of several values by one that is not among them. Behind a separator
// it gives no descriptions: bash quotes commas, and cobra's script then finds no described value.
func another(typed, separator string, all []cobra.Completion) (values []cobra.Completion) {
	before := typed[:strings.LastIndex(typed, separator)+1]
	named := strings.Split(before, separator)
	for _, value := range all {
		word, _, _ := strings.Cut(value, "\t")
		if before != "" {
			value = word
		}
		if !slices.Contains(named, word) {
			values = append(values, before+value)
		}
	}
	return values
}

func completeCheckList(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return another(typed, ",", checkIDs()), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeFacts completes what a baseline takes: facts, and the topics that stand for several.
func completeFacts(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := agreement.TopicNames()
	for _, fact := range agreement.Stateable() {
		names = append(names, fact.Path)
	}
	return another(typed, ",", names), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeHosts completes hosts, with what parts them, by those that a launch from here
// would take.
func completeHosts(separator string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return another(typed, separator, hostsHere(cmd)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func completeHost(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return hostsHere(cmd), cobra.ShellCompDirectiveNoFileComp
}

// completeJob completes the kind, which a name stands behind that only the cluster knows.
func completeJob(*cobra.Command, []string, string) (kinds []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, kind := range kubectl.Kinds() {
		kinds = append(kinds, kind+"/")
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeEndpoint completes HOST:PORT by the hosts with the port that DeepSpeed takes.
func completeEndpoint(cmd *cobra.Command, args []string, _ string) (endpoints []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, host := range hostsHere(cmd) {
			endpoints = append(endpoints, net.JoinHostPort(hostfile.Bare(host), strconv.Itoa(launch.DefaultMasterPort)))
		}
	}
	return endpoints, cobra.ShellCompDirectiveNoFileComp
}

// hostsHere are the hosts of the hostfile on the line, else of the Slurm job, else of the
// nearest hostfile.
func hostsHere(cmd *cobra.Command) (names []string) {
	named := ""
	if flag := cmd.Flag("hostfile"); flag != nil {
		named = flag.Value.String()
	}
	var hosts []hostfile.Host
	if named == "" {
		hosts, _ = hostfile.FromSlurm(srun.Own().Nodes, "") // none outside a job
	}
	if hosts == nil {
		hosts, _, _ = hostfile.ReadFile(cmp.Or(named, nearestHostfile()), "") // none of one that is wrong
	}
	for _, host := range hosts {
		names = append(names, host.Name)
	}
	return names
}

// completeOutputs completes the format of FORMAT=FILE; where none fits, the shell completes
// a file.
func completeOutputs(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var pairs []cobra.Completion
	for _, format := range formats.Names() {
		pairs = append(pairs, format+"=")
	}
	return another(typed, ",", pairs), cobra.ShellCompDirectiveNoSpace
}
