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
	"preflight/internal/text"
	"preflight/launch"
	"preflight/remote/kubectl"
	"preflight/remote/srun"
	"preflight/report/formats"
)

// The allowed values of flags with a fixed choice.
var (
	rendezvousModes = []string{launch.RendezvousDeepSpeed, launch.RendezvousStatic, launch.RendezvousC10d}
	accelerators    = []string{"auto", "cuda", "cpu"}
	smokeEngines    = []string{smokeNone, smokeAuto, smoke.Torch, smoke.Direct}
	plainFormats    = []string{"text", "json"} // formats of commands that do not check a fleet
)

// smokeNone is the value of --smoke if the flag is missing. smokeAuto is its value if the flag
// names no engine.
const smokeNone, smokeAuto = "none", "auto"

// formatFlag adds --format to a command that prints the named formats. The first format is the
// default.
func formatFlag(cmd *cobra.Command, names ...string) {
	cmd.Flags().String("format", names[0], "print "+orList(names))
	cmd.Flag("format").Annotations = map[string][]string{formatsKey: names}
	if err := cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("preflight: " + err.Error()) // the flag was registered twice
	}
}

// orList joins words in a list: "text, json or markdown".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// writesReports reports whether a command writes runs in every format. The outputs in the
// configuration file and in the environment apply only to such commands.
func writesReports(cmd *cobra.Command) bool {
	return slices.Contains([]string{"preflight", "judge", "demo"}, cmd.Name())
}

// completeFlags sets the completion of every flag of a command. A flag with a fixed choice
// completes its values, and only a flag that takes a file completes files.
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
			panic("preflight: " + err.Error()) // the flag was registered twice
		}
	})
}

// otherPaths lists the flags that take a file but are not settings, or do not always take a file.
var otherPaths = []string{"from", "python"}

// completions maps flags that have many values to their completion functions.
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

// checkIDs returns the IDs of the catalogue with their titles, in the form that shells show.
func checkIDs() []cobra.Completion {
	var ids []cobra.Completion
	for _, check := range catalogue.Catalogue {
		ids = append(ids, cobra.CompletionWithDesc(check.ID, check.Text().Title))
	}
	return ids
}

// completeLast completes the last of several values with a value that is not in the list yet. After
// a separator it gives no descriptions, because bash quotes commas, and cobra's script then finds
// no value with a description.
func completeLast(typed, separator string, all []cobra.Completion) (values []cobra.Completion) {
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
	return completeLast(typed, ",", checkIDs()), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeFacts completes the values of --accept: facts, and topics that stand for several facts.
func completeFacts(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := agreement.TopicNames()
	for _, fact := range agreement.Stateable() {
		names = append(names, fact.Path)
	}
	return completeLast(typed, ",", names), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeHosts completes a list of hosts with the hosts that a launch from this directory would
// use.
func completeHosts(separator string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeLast(typed, separator, hostsHere(cmd)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func completeHost(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return hostsHere(cmd), cobra.ShellCompDirectiveNoFileComp
}

// completeJob completes the kind of KIND/NAME. Only the cluster knows the names.
func completeJob(*cobra.Command, []string, string) (kinds []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, kind := range kubectl.Kinds() {
		kinds = append(kinds, kind+"/")
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeEndpoint completes HOST:PORT with the hosts and DeepSpeed's default port.
func completeEndpoint(cmd *cobra.Command, args []string, _ string) (endpoints []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, host := range hostsHere(cmd) {
			endpoints = append(endpoints, net.JoinHostPort(hostfile.Bare(host), strconv.Itoa(launch.DefaultMasterPort)))
		}
	}
	return endpoints, cobra.ShellCompDirectiveNoFileComp
}

// hostsHere returns the hosts of the hostfile that the command line names. Otherwise it returns the
// hosts of the Slurm job, or else of the nearest hostfile.
func hostsHere(cmd *cobra.Command) (names []string) {
	named := ""
	if flag := cmd.Flag("hostfile"); flag != nil {
		named = flag.Value.String()
	}
	var hosts []hostfile.Host
	if named == "" {
		hosts, _ = hostfile.FromSlurm(srun.Own().Nodes, "") // nil outside a job
	}
	if hosts == nil {
		hosts, _, _ = hostfile.ReadFile(cmp.Or(named, nearestHostfile()), "") // nil if the hostfile has errors
	}
	for _, host := range hosts {
		names = append(names, host.Name)
	}
	return names
}

// completeOutputs completes the format of FORMAT=FILE. If no format fits, the shell completes a
// file.
func completeOutputs(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	pairs := text.Map(formats.Names(), func(format string) cobra.Completion { return format + "=" })
	return completeLast(typed, ",", pairs), cobra.ShellCompDirectiveNoSpace
}
