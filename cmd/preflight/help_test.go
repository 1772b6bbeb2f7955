// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag that help shows stands below one heading, and no heading names one that is gone.
func TestFlagGroups(t *testing.T) {
	groups := map[string]int{}
	for _, group := range flagGroups {
		for _, name := range group.flags {
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

// The table of docs/policy.md has the settings below the headings of help, in its order.
func TestSettingsAreGroupedAsHelp(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range flagGroups {
		row := "| " + group.title + " |"
		for _, name := range group.flags {
			key := strings.ReplaceAll(name, "-", "_")
			if slices.ContainsFunc(settings(rootCommand()), func(s setting) bool { return s.key == key }) {
				row += " `" + key + "`"
			}
		}
		if !strings.Contains(string(page), "\n"+row+" |\n") {
			t.Errorf("the page has no row %s |", row)
		}
	}
}
