// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFirstScreen checks that the help of preflight itself fits on one screen, names every
// command, and names no flag that does not exist.
func TestFirstScreen(t *testing.T) {
	var screen bytes.Buffer
	firstScreen(&screen)
	lines := strings.Split(strings.TrimSuffix(screen.String(), "\n"), "\n")
	if len(lines) > 60 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 88 {
			t.Errorf("too wide: %s", line)
		}
	}
	_, flags, _ := strings.Cut(screen.String(), "\nFlags:\n")
	root := rootCommand()
	root.InitDefaultHelpFlag()
	root.InitDefaultCompletionCmd() // cobra's Execute calls this too
	named := regexp.MustCompile(`(?:-([a-zA-Z]), +)?--([a-z_-]+)`).FindAllStringSubmatch(flags, -1)
	for _, match := range named {
		if flag := root.Flags().Lookup(match[2]); flag == nil || flag.Shorthand != match[1] {
			t.Errorf("there is no flag %s", match[0])
		}
	}
	if len(named) < 15 {
		t.Errorf("only %d flags", len(named))
	}
	commands, _, _ := strings.Cut(screen.String(), "\nFlags:\n")
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && !regexp.MustCompile(`(?m)^[A-Z].*:  .*\b`+cmd.Name()+`\b|^ {12}`+cmd.Name()+` `).MatchString(commands) {
			t.Errorf("it does not name the command %s", cmd.Name())
		}
	}
}

// TestTopics checks that `preflight help flags` has every flag of preflight, and that every other
// topic has prose and its flags. The text of a flag may have two lines at most.
func TestTopics(t *testing.T) {
	root := rootCommand()
	help := map[string]string{}
	for _, topic := range topics() {
		var text bytes.Buffer
		topicHelp(&text, root, topic)
		help[topic] = text.String()
		if _, err := helpTexts.ReadFile("help/" + topic + ".tmpl"); err != nil && topic != topicFlags {
			t.Errorf("%s has no prose", topic)
		}
	}
	for _, group := range flagGroups {
		for _, name := range group.names() {
			if root.Flag(name) == nil {
				continue
			}
			flag := regexp.MustCompile(`(?m)^ .*--` + name + `\b.*\n(?: {20,}.*\n)*`)
			for _, topic := range []string{topicFlags, group.topic} {
				if lines := strings.Count(flag.FindString(help[topic]), "\n"); lines == 0 || lines > 2 {
					t.Errorf("preflight help %s has %d lines on --%s", topic, lines, name)
				}
			}
		}
	}
}

// TestFlagGroups checks that every flag that help shows is in one group, and that the groups
// name no flag that no command has.
func TestFlagGroups(t *testing.T) {
	groups := map[string]int{}
	for _, group := range flagGroups {
		for _, name := range group.names() {
			groups[name]++
		}
	}
	used := map[string]bool{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "completion" {
			return
		}
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			flags.VisitAll(func(flag *pflag.Flag) {
				used[flag.Name] = true
				if !slices.Contains([]string{"help", "version"}, flag.Name) && groups[flag.Name] != 1 {
					t.Errorf("%s --%s is in %d groups of help.go, and belongs in one", cmd.CommandPath(), flag.Name, groups[flag.Name])
				}
			})
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(rootCommand())
	for name := range groups {
		if !used[name] {
			t.Errorf("no command has --%s", name)
		}
	}
}

// TestSettingsAreGroupedAsHelp checks that the table in docs/policy.md groups and orders the
// settings as help does.
func TestSettingsAreGroupedAsHelp(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range flagGroups {
		row := ""
		for _, name := range group.names() {
			key := strings.ReplaceAll(name, "-", "_")
			if slices.ContainsFunc(settings(rootCommand()), func(s setting) bool { return s.key == key }) {
				row += " `" + key + "`"
			}
		}
		if !strings.Contains(string(page), " |"+row+" |\n") {
			t.Errorf("the page has no row of %s with%s", group.title, row)
		}
	}
}
