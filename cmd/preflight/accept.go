// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"preflight"
	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/report"
)

// acceptance says which changes go into a baseline, and which run they come from.
type acceptance struct {
	names  []string // facts and topics
	from   string   // path of a saved run; "" means that preflight checks the nodes now
	dryRun bool
}

func (a *acceptance) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&a.names, "accept", nil, "update only these facts in the -o baseline: facts, groups of facts or topics")
	flags.StringVar(&a.from, "from", "", "with --accept: read the values from this saved run; -w selects the nodes")
	flags.BoolVar(&a.dryRun, "dry-run", false, "with --accept: show the changes, but write nothing")
}

// accepting runs `preflight snapshot --accept`, which adds single changes to a baseline.
func accepting(cmd *cobra.Command, config Config, command []string, a acceptance) error {
	scopes, err := scopesOf(a.names)
	if err != nil {
		return err
	}
	file, err := config.accepts()
	if err != nil {
		return err
	}
	snapshot, err := os.ReadFile(file.Path)
	if err != nil {
		return notASavedRun("%s cannot be read: %w", file.Asked, usage.Reason(err))
	}
	config.Baseline = file.Path
	later, err := config.laterRun(cmd, command, a.from)
	if err != nil {
		return err
	}
	was, err := config.baseline(later.Launch)
	if err != nil {
		return err
	}
	wanted, err := selectChanges(agreement.Drifted(*was, later.Fleet, later.Launch), scopes, file.Path)
	if err != nil {
		return err
	}
	accepted, err := report.Accepted(snapshot, later, wanted)
	if err != nil {
		return err
	}
	taken, left, err := config.difference(*was, accepted, later)
	if err != nil {
		return err
	}
	changed := report.Changed{Changes: taken}
	if err := report.ChangesText(os.Stdout, changed, outputs.TerminalStyle(os.Stdout)); err != nil {
		return err
	}
	outcome := "accepted"
	if a.dryRun {
		outcome = "would be accepted"
	} else if err := file.Put(accepted); err != nil {
		return err
	}
	if !config.Quiet {
		fmt.Fprintf(os.Stderr, "preflight: %s: %s %s, %d left\n", text.Escape(file.Path), text.Plural(len(changed.Rows(false)), "change"), outcome, len(left.Rows(false)))
	}
	if lost := lostNodes(later); lost != nil {
		fmt.Fprintf(os.Stderr, "preflight: not updated: %s (not reached, or lost during the run)\n", text.Escape(hostfile.Fold(lost)))
		return exitCode(exitTrouble)
	}
	return nil
}

func scopesOf(names []string) (scopes []agreement.Scope, err error) {
	for _, several := range names {
		each := []string{several}
		if !strings.Contains(several, "[") { // in brackets, a comma belongs to a set of numbers
			each = strings.Split(several, ",")
		}
		for _, name := range each {
			scope, wrong := agreement.ReadScope(strings.TrimSpace(name))
			if wrong != nil {
				err = errors.Join(err, fmt.Errorf("--accept: %w", wrong))
			}
			scopes = append(scopes, scope)
		}
	}
	return scopes, err
}

// accepts returns the baseline to update: the file of -o or of --baseline.
func (c Config) accepts() (outputs.Output, error) {
	all := c.outputs()
	if len(c.Output) == 0 && c.Baseline != "" {
		return outputs.Output{Asked: c.origin("baseline") + " " + c.Baseline, Path: c.Baseline}, nil
	}
	if len(all) != 1 || all[0].Printed() {
		return outputs.Output{}, usage.WithHint(errors.New("--accept needs exactly one file"), "name the baseline: -o golden.json")
	}
	return all[0], nil
}

// laterRun returns the run that shows the changes: the saved run, or a new one if from is "".
func (c Config) laterRun(cmd *cobra.Command, command []string, from string) (checks.Report, error) {
	if from != "" {
		saved, err := readReport(from)
		if err != nil {
			return saved, err
		}
		return saved, c.onlyHosts(&saved)
	}
	began := time.Now()
	job, closeJob, err := c.job(cmd.Context(), command)
	if err != nil {
		return checks.Report{}, err
	}
	defer closeJob()
	fleet, prediction := preflight.Look(cmd.Context(), job)
	return c.stamped(engine.Evaluate(nil, fleet, prediction, checks.Policy{}), job.Plan, began), nil
}

// onlyHosts removes the nodes that -w does not name from a saved run.
func (c Config) onlyHosts(saved *checks.Report) error {
	if c.Hosts == "" {
		return nil
	}
	hosts, err := hostfile.ParseHosts(c.Hosts)
	if err != nil {
		return fmt.Errorf("%s: %w", c.origin("hosts"), err)
	}
	var names []string
	for i := range saved.Nodes {
		names = append(names, saved.Nodes[i].Name)
	}
	for _, host := range hosts {
		if !slices.Contains(names, host.Name) {
			return fmt.Errorf("%s: the saved run has no node %s%s", c.origin("hosts"), host.Name, usage.Nearest(host.Name, names))
		}
	}
	saved.Nodes = slices.DeleteFunc(saved.Nodes, func(node facts.Node) bool { return !hasHost(hosts, node.Name) })
	saved.Launch.HostsFile = "" // otherwise drift would miss the removed nodes
	return nil
}

// selectChanges returns the changes that the scopes cover. If a scope covers no change,
// selectChanges returns an error, and no change of any scope is accepted.
func selectChanges(changes []checks.Change, scopes []agreement.Scope, file string) ([]checks.Change, error) {
	names := text.Map(changes, func(c checks.Change) string { return cmp.Or(c.Fact, agreement.NodesTopic) })
	var unchanged []string
	for _, scope := range scopes {
		if !slices.ContainsFunc(changes, scope.Covers) {
			unchanged = append(unchanged, scope.Name)
		}
	}
	if unchanged != nil {
		err := fmt.Errorf("--accept: not changed since %s: %s", file, text.List(unchanged))
		if len(unchanged) == 1 {
			err = fmt.Errorf("--accept: %s has not changed since %s%s", unchanged[0], file, usage.Meant(unchanged[0], names))
		}
		slices.Sort(names)
		if names = slices.Compact(names); names == nil {
			return nil, usage.WithHint(err, "nothing has changed since this baseline")
		}
		return nil, usage.WithHint(err, "these have changed: %s", usage.Words(text.List(names)))
	}
	return slices.DeleteFunc(changes, func(c checks.Change) bool {
		return !slices.ContainsFunc(scopes, func(scope agreement.Scope) bool { return scope.Covers(c) })
	}), nil
}

// difference returns the changes that a baseline now includes, and the changes that are left.
func (c Config) difference(was checks.Baseline, text []byte, later checks.Report) (taken []checks.Change, left report.Changed, err error) {
	now, err := report.Read(bytes.NewReader(text))
	if err != nil {
		return nil, left, err
	}
	is := c.baselineOf(now, later.Launch)
	remaining := agreement.Drifted(*is, later.Fleet, later.Launch)
	key := func(c checks.Change) string { return c.Node + "\x00" + c.Fact + "\x00" + string(c.Before) }
	still := map[string]bool{}
	for _, c := range remaining {
		still[key(c)] = true
	}
	taken = slices.DeleteFunc(agreement.Drifted(was, later.Fleet, later.Launch), func(c checks.Change) bool { return still[key(c)] })
	return taken, report.Changed{Changes: remaining}, nil
}
