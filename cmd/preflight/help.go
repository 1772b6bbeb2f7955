// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// flagGroups are the headings of help in their order, and the flags below each,
// whichever command has them.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Who takes part", []string{"hostfile", "hosts", "include", "exclude", "num_nodes", "num_gpus", "from"}},
	{"The launch", []string{"launcher", "force_multi", "accelerator", "python", "master_addr", "master_port", "rendezvous", "rdzv-endpoint", "deepspeed-version", "dry-run"}},
	{"How the nodes are reached", []string{"via", "in", "ssh_port", "jobid", "callback", "container-image", "container-name", "container-mounts", "container-workdir", "namespace", "context", "selector", "job", "container", "meet-listen", "meet-token-file", "meet", "node", "patience", "timeout"}},
	{"What is tried and judged", []string{"only", "skip", "throughput", "smoke", "smoke-time", "stacks", "strict", "baseline", "accept", "config"}},
	{"Limits", []string{"shm-headroom", "disk-free", "memory-free", "clock-skew", "open-files", "compute-rate", "copy-rate", "node-reduce-rate", "reduce-rate"}},
	{"Output", []string{"format", "output", "normalize", "good-hosts", "bad-hosts", "write-env", "verbose", "quiet", "progress"}},
}

// otherFlags is the heading of those that every command has.
const otherFlags = "Other"

// flagGroup is the heading that a flag stands below.
func flagGroup(name string) string {
	for _, group := range flagGroups {
		if slices.Contains(group.flags, name) {
			return group.title
		}
	}
	return otherFlags
}

// flagSection is a heading of help and what stands below it.
type flagSection struct {
	Title string
	flags *pflag.FlagSet
}

// helpWidth is where lines of help are broken, as those of a report are.
const helpWidth = 100

// Usages are the lines of the section.
func (s flagSection) Usages() string { return s.flags.FlagUsagesWrapped(helpWidth) }

// fewFlags are so many that they need no headings.
const fewFlags = 6

// flagSections are the flags of a command that are shown.
func flagSections(cmd *cobra.Command) (sections []flagSection) {
	shown := map[string]*pflag.Flag{}
	var names, others []string
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			if flag.Hidden {
				return
			}
			shown[flag.Name] = flag
			names = append(names, flag.Name)
			if flagGroup(flag.Name) == otherFlags {
				others = append(others, flag.Name)
			}
		})
	}
	section := func(title string, names []string) {
		set := pflag.NewFlagSet(title, pflag.ContinueOnError)
		set.SortFlags = false
		for _, name := range names {
			if flag := shown[name]; flag != nil {
				set.AddFlag(flag)
			}
		}
		if set.HasFlags() {
			sections = append(sections, flagSection{title, set})
		}
	}
	if len(names) <= fewFlags {
		section("Flags", names)
		return sections
	}
	for _, group := range flagGroups {
		section(group.title, group.flags)
	}
	section(otherFlags, others)
	return sections
}

// helpTemplate is cobra's with the flags in sections.
const helpTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{range flagSections .}}
{{.Title}}:
{{.Usages}}{{end}}{{if .HasAvailableSubCommands}}
"{{.CommandPath}} [command] --help" tells more of a command.
{{end}}`

func groupedHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("flagSections", flagSections)
	root.SetUsageTemplate(helpTemplate)
}

// manCommand writes the manual, a page for every command that has help. Packages call
// it; nobody types it. The date on the pages is SOURCE_DATE_EPOCH where that is set, so
// that one commit makes the same pages every day.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages", Hidden: true, Args: arguments(1, 1, "needs one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true // it would tell the day they were written on, and who wrote cobra
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "preflight " + Version, Manual: "Distributed training"}, args[0])
		},
	}
}
