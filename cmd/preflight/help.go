// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"preflight/cmd/preflight/internal/usage"
	"preflight/report"
	"preflight/report/formats"
)

// helpTexts holds the first screen of help, preflight.tmpl, and the prose of each topic.
//
//go:embed help/*.tmpl
var helpTexts embed.FS

// flagGroup is a group of flags in help. All commands share these groups.
type flagGroup struct {
	title string
	topic string   // the TOPIC of `preflight help TOPIC`
	flags []string // names of flags with the name of their value: "hostfile FILE"
}

var flagGroups = []flagGroup{
	{"Nodes", topicFlags, []string{"hostfile FILE", "hosts LIST", "include FILTER", "exclude FILTER", "num_nodes N", "num_gpus N", "from FILE"}},
	{"Launch", "launch", []string{"launcher NAME", "force_multi", "accelerator KIND", "python PATH", "master_addr ADDRESS", "master_port PORT", "rendezvous KIND", "rdzv-endpoint HOST[:PORT]", "deepspeed-version VERSION", "dry-run"}},
	{"Reaching the nodes", "via", []string{"via HOW", "in COMMAND", "ssh_port PORT", "jobid ID", "callback HOST:PORT", "container-image IMAGE", "container-name NAME", "container-mounts MOUNTS", "container-workdir DIRECTORY", "namespace NAME", "context NAME", "selector LABELS", "job KIND/NAME", "container NAME", "meet-listen [HOST]:PORT", "meet-token-file FILE", "meet HOST:PORT", "node NAME", "patience TIME", "timeout TIME"}},
	{"Checks", topicFlags, []string{"only CHECKS", "skip CHECKS", "throughput", "smoke ENGINE", "smoke-time TIME", "rehearse", "rehearse-time TIME", "stacks", "strict", "baseline FILE", "accept FACTS", "config FILE"}},
	{"Limits", "limits", []string{"shm-headroom SIZE", "disk-free SIZE", "memory-free SHARE", "clock-skew TIME", "open-files N", "shared DIRECTORIES", "compute-rate RATE", "copy-rate RATE", "node-reduce-rate RATE", "reduce-rate RATE"}},
	{"Output", "output", []string{"format FORMAT", "output FILE", "normalize", "good-hosts FILE", "bad-hosts FILE", "write-env FILE", "verbose", "quiet", "progress HOW"}},
}

// topicFlags is the topic that lists all flags. The other topics are about one group each.
const topicFlags = "flags"

// topics returns the names that `preflight help` accepts in addition to the commands.
func topics() []string {
	names := []string{topicFlags}
	for _, group := range flagGroups {
		if group.topic != topicFlags {
			names = append(names, group.topic)
		}
	}
	return names
}

// names returns the names of the flags without their values.
func (g flagGroup) names() (names []string) {
	for _, flag := range g.flags {
		name, _, _ := strings.Cut(flag, " ")
		names = append(names, name)
	}
	return names
}

// commandFlagNames lists the flags that the help of a command shows although preflight itself also
// has them.
var commandFlagNames = []string{"hostfile", "hosts", "include", "exclude", "via", "in", "timeout", "only", "skip", "strict", "baseline", "format", "output", "good-hosts", "bad-hosts", "verbose", "quiet"}

// helpWidth is the width of help in columns, the same as that of a report.
const helpWidth = 100

// flagLines returns the help of flags, one paragraph per flag, in the order of [flagGroups].
func flagLines(flags map[string]*pflag.Flag, groups ...flagGroup) string {
	type row struct{ flag, text string }
	var rows []row
	width := 0
	add := func(flag *pflag.Flag, value string) {
		left := "      --" + flag.Name
		if flag.Shorthand != "" {
			left = "  -" + flag.Shorthand + ", --" + flag.Name
		}
		switch {
		case flag.NoOptDefVal != "" && value != "":
			left += "[=" + value + "]"
		case value != "":
			left += " " + value
		}
		rows = append(rows, row{left, usageOf(flag)})
		width = max(width, len(left)+3)
	}
	for _, group := range groups {
		for _, flag := range group.flags {
			name, value, _ := strings.Cut(flag, " ")
			if flag := flags[name]; flag != nil {
				add(flag, value)
			}
		}
	}
	var lines strings.Builder
	for _, r := range rows {
		left := r.flag
		for _, line := range report.Wrap(r.text, helpWidth-width) {
			fmt.Fprintf(&lines, "%-*s%s\n", width, left, strings.ReplaceAll(line, "\u00a0", " "))
			left = ""
		}
	}
	return lines.String()
}

// usageOf returns what a flag does and its default.
func usageOf(flag *pflag.Flag) string {
	value := strings.TrimSuffix(flag.DefValue, "m0s")
	if value != flag.DefValue {
		value += "m"
	}
	if slices.Contains([]string{"", "0", "[]", "false", smokeNone}, value) || strings.Contains(flag.Usage, "(default") {
		return flag.Usage
	}
	return fmt.Sprintf("%s (default:\u00a0%s)", flag.Usage, value)
}

// shownFlags returns the flags that the help of a command may show, by name.
func shownFlags(cmd *cobra.Command) map[string]*pflag.Flag {
	shown := map[string]*pflag.Flag{}
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden {
				shown[flag.Name] = flag
			}
		})
	}
	return shown
}

// firstScreen writes the help of preflight itself.
func firstScreen(w io.Writer) {
	screen, _ := helpTexts.ReadFile("help/preflight.tmpl")
	w.Write(screen)
}

// topicHelp writes the help of a topic: its prose, if any, and its flags.
func topicHelp(w io.Writer, root *cobra.Command, topic string) {
	prose, err := helpTexts.ReadFile("help/" + topic + ".tmpl")
	if err == nil {
		fmt.Fprintln(w, strings.ReplaceAll(string(prose), "{{formats}}", formatLines()))
	}
	shown := shownFlags(root)
	for i, group := range flagGroups {
		switch {
		case topic == topicFlags:
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "%s:\n%s", group.title, flagLines(shown, group))
		case group.topic == topic:
			fmt.Fprintf(w, "Flags:\n%s", flagLines(shown, group))
		}
	}
}

// formatLines lists the formats with the extensions of their files.
func formatLines() string {
	var lines strings.Builder
	for _, format := range formats.All {
		if !format.Hosts {
			endings := ""
			if format.Endings != nil {
				endings = "." + strings.Join(format.Endings, ", .")
			}
			fmt.Fprintln(&lines, strings.TrimRight(fmt.Sprintf("  %-12s%-14s%s", format.Name, endings, format.Is), " "))
		}
	}
	return lines.String()
}

// commandHelp writes the help of a command other than preflight itself. It shows only a few of the
// flags that describe a launch (see [commandFlagNames]) and names the topics of the other flags.
func commandHelp(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short+".")), cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nCommands:")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	shown, folded := shownFlags(cmd), []string(nil)
	delete(shown, "config") // every command has it
	var isNamed []string
	for _, group := range flagGroups {
		for _, name := range group.names() {
			flag, same := shown[name], cmd.Root().Flags().Lookup(name)
			if flag != nil && same != nil && same.Usage == flag.Usage && !slices.Contains(commandFlagNames, name) {
				delete(shown, name)
				if topic := "preflight help " + group.topic; !slices.Contains(folded, topic) {
					folded = append(folded, topic)
				}
			}
		}
		isNamed = append(isNamed, group.names()...)
	}
	others := flagGroup{}
	for name := range shown {
		if !slices.Contains(isNamed, name) && name != "help" {
			others.flags = append(others.flags, name)
		}
	}
	slices.Sort(others.flags)
	if lines := flagLines(shown, append(slices.Clone(flagGroups), others)...); lines != "" {
		fmt.Fprintf(w, "\nFlags:\n%s", lines)
	}
	switch {
	case len(folded) > 2:
		fmt.Fprintln(w, "\nLaunch flags: preflight help flags")
	case folded != nil:
		fmt.Fprintf(w, "\nMore flags: %s\n", strings.Join(folded, ", "))
	}
}

// setHelp sets the help of preflight and its commands, and adds the help command.
func setHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if cmd == root {
			firstScreen(cmd.OutOrStdout())
		} else {
			commandHelp(cmd.OutOrStdout(), cmd)
		}
	})
	root.SetHelpCommand(helpCommand(root))
}

func helpCommand(root *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Show the help of a command or a topic",
		Long: `Show the help of a command or a topic. The topics are:

  flags    all flags
  launch   what preflight checks, and how to describe it
  via      how preflight connects to the nodes, and which container it checks
  limits   the thresholds that the checks apply
  output   the reports and other files that preflight writes`,
		Args: arguments(0, 1, "takes one command or topic at most"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return helpNames(root), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flag("format").Value.String() == "markdown" {
				return helpMarkdown(os.Stdout, root)
			}
			if len(args) == 0 {
				return root.Help()
			}
			if slices.Contains(topics(), args[0]) {
				topicHelp(cmd.OutOrStdout(), root, args[0])
				return nil
			}
			if found, _, err := root.Find(args); err == nil && found != root {
				return found.Help()
			}
			return usage.WithHint(fmt.Errorf("no help on %q%s", args[0], usage.Meant(args[0], helpNames(root))), "preflight -h lists the commands and topics")
		},
	}
	formatFlag(cmd, "text", "markdown")
	cmd.Flag("format").Hidden = true // only `make docs` uses it, to write docs/cli.md
	return cmd
}

// helpNames returns the names of the commands and topics.
func helpNames(root *cobra.Command) []string {
	names := topics()
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			names = append(names, cmd.Name())
		}
	}
	return names
}

// helpMarkdown writes docs/cli.md, which has all help on one page.
func helpMarkdown(w io.Writer, root *cobra.Command) error {
	var page bytes.Buffer
	page.WriteString("# Command line\n\nThis page contains the help texts of preflight's commands, and describes every flag by topic.\n\n```sh\npreflight -h\n```\n")
	section := func(title string, write func(io.Writer)) {
		var help bytes.Buffer
		write(&help)
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s```\n", title, help.String())
	}
	section("preflight", firstScreen)
	for _, topic := range topics() {
		section("preflight help "+topic, func(w io.Writer) { topicHelp(w, root, topic) })
	}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "completion" {
			section("preflight "+cmd.Name(), func(w io.Writer) { commandHelp(w, cmd) })
		}
	}
	_, err := w.Write(page.Bytes())
	return err
}

// manCommand returns the command that writes the manual, with one page per command that has help.
// It is hidden because only packaging calls it. cobra takes the date of the pages from
// SOURCE_DATE_EPOCH if that is set, so that one commit gives the same pages every day.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages", Hidden: true, Args: arguments(1, 1, "needs one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true // the tag would have the date and the name of cobra
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "preflight " + Version, Manual: "Distributed training"}, args[0])
		},
	}
}
