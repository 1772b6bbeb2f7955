// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/cmd/preflight/internal/usage"
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
		ids = append(ids, cobra.CompletionWithDesc(check.ID, check.Title))
	}
	return ids
}

// another completes the last of several values by one that is not among them.
func another(typed, separator string, all []cobra.Completion) (values []cobra.Completion) {
	before := typed[:strings.LastIndex(typed, separator)+1]
	named := strings.Split(before, separator)
	for _, value := range all {
		if word, _, _ := strings.Cut(value, "\t"); !slices.Contains(named, word) {
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

// strictCompletion makes cobra's own command refuse a shell it does not know:
// it would print its help instead, which a shell then takes for a script.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		bash, _, err := cmd.Find([]string{"bash"})
		if err != nil {
			panic("preflight: " + err.Error()) // cobra writes no completion for it
		}
		bash.RunE = func(*cobra.Command, []string) error {
			plain, err := bash.Flags().GetBool("no-descriptions")
			if err != nil {
				return err
			}
			var script bytes.Buffer
			if err := root.GenBashCompletionV2(&script, !plain); err != nil {
				return err
			}
			_, err = os.Stdout.Write(withCommas(script.Bytes()))
			return err
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
			return fmt.Errorf("completion: %w", usage.Among(args[0], shells))
		}
	}
}

// quotes are the lines of cobra's script for bash that quote completions, each with what it
// quotes: a variable or a list.
var quotes = regexp.MustCompile(`(?m)^( *)(?:IFS=.* read -ra |printf -v )?(comp|completions|COMPREPLY)\b.*printf .*%q.*$`)

// withCommas has the script go on behind a comma. bash's %q puts a backslash before one, as
// of brace expansion (bash, lib/sh/shquote.c, sh_backslash_quote), and the script then takes
// no list for what was typed (cobra 1.10.2, bash_completionsV2.go).
func withCommas(script []byte) []byte {
	return quotes.ReplaceAllFunc(script, func(line []byte) []byte {
		found := quotes.FindSubmatch(line)
		quoted := string(found[2])
		unquoted := fmt.Sprintf(`%[1]s=("${%[1]s[@]//\\,/,}")`, quoted)
		if quoted == "comp" {
			unquoted = fmt.Sprintf(`%[1]s=${%[1]s//\\,/,}`, quoted)
		}
		return slices.Concat(line, []byte("\n"), found[1], []byte(unquoted))
	})
}
