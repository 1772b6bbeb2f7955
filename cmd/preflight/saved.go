// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/report"
	"preflight/report/ci"
	"preflight/report/formats"
)

// readReport reads a saved run. The path "-" means standard input.
func readReport(path string) (checks.Report, error) {
	in := os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return checks.Report{}, notASavedRun("%s cannot be read: %w", path, usage.Reason(err))
		}
		defer file.Close()
		in = file
	}
	r, err := report.Read(in)
	if _, unread := errors.AsType[*fs.PathError](err); unread { // the path is a directory, for example
		return r, notASavedRun("%s cannot be read: %w", path, usage.Reason(err))
	}
	if err != nil {
		return r, notASavedRun("%s: %w", path, err)
	}
	if len(r.Nodes) == 0 { // the file is the output of predict, explain or diff
		return r, notASavedRun("%s: not a saved run: it has no nodes", path)
	}
	return r, nil
}

// notASavedRun returns an error that a file is not a saved run, with the commands that save one.
func notASavedRun(format string, args ...any) error {
	return usage.WithHint(fmt.Errorf(format, args...), "to save a run: preflight -H hostfile -o json=run.json; to save a baseline: preflight snapshot -H hostfile --normalize -o golden.json")
}

// readOnce refuses to read two saved runs from standard input.
func readOnce(one, other string) error {
	if one == "-" && other == "-" {
		return usage.WithHint(errors.New("- is given twice: standard input can only be read once"), "name a file for one of them")
	}
	return nil
}

func baselineFlag(flags *pflag.FlagSet) {
	flags.String("baseline", "", "report what has changed since this snapshot (the drift check)")
}

// baseline reads the file with which drift compares the nodes. It returns nil if no file is named.
// It leaves out nodes that the hostfile lists but this launch excludes, so that drift does not
// report them as missing.
func (c Config) baseline(p launch.Prediction) (*checks.Baseline, error) {
	if c.Baseline == "" {
		return nil, nil
	}
	saved, err := readReport(c.Baseline)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.origin("baseline"), err)
	}
	return c.baselineOf(saved, p), nil
}

// baselineOf converts a saved run into the baseline with which drift compares the nodes.
func (c Config) baselineOf(saved checks.Report, p launch.Prediction) *checks.Baseline {
	baseline := &checks.Baseline{File: c.Baseline, Head: saved.Head, Nodes: saved.Nodes, NotTried: saved.NotTried}
	if c.Via != viaAuto {
		baseline.Via = c.Via
	}
	baseline.In = c.In
	if p.HostsFile == "" {
		return baseline
	}
	// A launch has already read this file without an error. judge may run on another machine, where
	// a file with this name may list another fleet.
	listed, _, err := hostfile.ReadFile(p.HostsFile, p.DeepSpeed)
	if err != nil || slices.ContainsFunc(p.Hosts, func(host hostfile.Host) bool { return !hasHost(listed, host.Name) }) {
		baseline.Unlisted = true
		return baseline
	}
	baseline.Nodes = slices.DeleteFunc(baseline.Nodes, func(node facts.Node) bool {
		return hasHost(listed, node.Name) && !hasHost(p.Hosts, node.Name)
	})
	return baseline
}

func hasHost(hosts []hostfile.Host, name string) bool {
	return slices.ContainsFunc(hosts, func(host hostfile.Host) bool { return host.Name == name })
}

func judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge FILE",
		Short: "Check a saved run again, offline",
		Long: `Check a saved run again with the current checks, limits and policy. judge contacts no node.

Exit codes: 0 the nodes are ready, 1 a check failed, 2 judge could not tell.`,
		Example: `  preflight judge run.json
  preflight judge run.json -o report.html`,
		Args: arguments(1, 1, "needs one file"),
		RunE: configured(func(cmd *cobra.Command, config Config, args []string) error {
			policy, err := config.policy()
			if err != nil {
				return err
			}
			if err := readOnce(args[0], config.Baseline); err != nil {
				return err
			}
			saved, err := readReport(args[0])
			if err != nil {
				return err
			}
			if err := config.writable(outputs.Run(), map[string]string{"the saved run": args[0], "the baseline": config.Baseline}); err != nil {
				return err
			}
			if policy.Baseline, err = config.baseline(saved.Launch); err != nil {
				return err
			}
			judged := rejudge(saved, policy)
			if err := config.write(judged); err != nil {
				return err
			}
			return verdictCode(judged)
		}),
	}
	judgeFlags(cmd, formats.Names())
	hostListFlags(cmd.Flags())
	baselineFlag(cmd.Flags())
	return cmd
}

// rejudge checks the facts of a saved run with the checks of this release. If the run was
// interrupted or normalized, the result is too.
func rejudge(saved checks.Report, policy checks.Policy) checks.Report {
	catalogue := catalogue.Catalogue
	if saved.Normalized {
		catalogue = agreement.Lasting(catalogue)
	}
	saved.NotTried = maps.Clone(saved.NotTried)
	if saved.NotTried == nil {
		saved.NotTried = map[facts.Section]string{}
	}
	for section, reason := range reasonsForGaps(saved) {
		if _, isNoted := saved.NotTried[section]; !isNoted && reason != "" {
			saved.NotTried[section] = reason
		}
	}
	judged := engine.Evaluate(catalogue, saved.Fleet, saved.Launch, policy)
	judged.Version, judged.Hostfile, judged.Began, judged.Seconds = Version, saved.Hostfile, saved.Began, saved.Seconds
	judged.Interrupted, judged.Normalized, judged.CannotSee = saved.Interrupted, saved.Normalized, saved.CannotSee
	judged.Conclude(policy.Strict)
	return judged
}

// reasonsForGaps returns, for each section that older releases did not collect, the reason why its
// absence does not matter in this run. The reason is "" if the absence does matter.
func reasonsForGaps(saved checks.Report) map[facts.Section]string {
	reached := slices.DeleteFunc(slices.Clone(saved.Nodes), func(node facts.Node) bool { return !node.Reached })
	// unknown returns why if no node of a complete run has the section. A complete run of a release
	// that collects the section has it for every node that was reached.
	unknown := func(section facts.Section, why string) string {
		tells := func(node facts.Node) bool { return node.Has(section) || node.Missing[section] != "" }
		if saved.Interrupted || len(reached) == 0 || slices.ContainsFunc(reached, tells) {
			return ""
		}
		return why
	}
	var nodes []*facts.Node
	for i := range saved.Nodes {
		nodes = append(nodes, &saved.Nodes[i])
	}
	return map[facts.Section]string{
		facts.SectionCallBack: saved.Launch.NoCallBack(saved.Head), facts.SectionHub: saved.Launch.NoFetching(nodes),
		facts.SectionSmoke:     unknown(facts.SectionSmoke, "the run was saved by a preflight without --smoke"),
		facts.SectionShared:    unknown(facts.SectionShared, "the run was saved by a preflight without this drill"),
		facts.SectionRehearsed: unknown(facts.SectionRehearsed, "the run was saved by a preflight without --rehearse"),
		facts.SectionKernelLog: unknown(facts.SectionKernelLog, "the run was saved by a preflight without this check"),
	}
}

func diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare two saved runs",
		Long: `Compare two saved runs, fact by fact. diff reports nodes that were added or removed, and
every value that has changed. It leaves out values that change on their own, such as load
and free memory. If only one of the runs has a fact, diff names the fact but does not
compare it.

Exit codes: 0 nothing changed, 1 something changed, 2 diff could not compare the runs.
diff exits with 2 if a file is not a saved run, or if facts are missing and nothing else
has changed. Facts that the first run did not look for do not count as missing. For
example, a run with --accelerator cpu does not look for GPUs.`,
		Args: arguments(2, 2, "needs two files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := readOnce(args[0], args[1]); err != nil {
				return err
			}
			before, err := readReport(args[0])
			if err != nil {
				return err
			}
			after, err := readReport(args[1])
			if err != nil {
				return err
			}
			changed := report.Changed{
				Schema: checks.Schema, Changes: agreement.Changes(before.Fleet, after.Fleet), NotCompared: agreement.Unseen(before.Fleet, after.Fleet),
			}
			if err := printChanges(changed, cmd.Flag("format").Value.String()); err != nil {
				return err
			}
			switch {
			case len(changed.Changes) > 0:
				return exitCode(exitFail)
			case slices.ContainsFunc(changed.NotCompared, func(n agreement.NotCompared) bool { return !n.ByChoice }):
				return exitCode(exitTrouble)
			}
			return nil
		},
	}
	formatFlag(cmd, "text", "json", "markdown")
	return cmd
}

func printChanges(changed report.Changed, format string) error {
	switch format {
	case "json":
		return report.JSON(os.Stdout, changed)
	case "markdown":
		return ci.ChangesMarkdown(os.Stdout, changed)
	}
	return report.ChangesText(os.Stdout, changed, outputs.TerminalStyle(os.Stdout))
}
