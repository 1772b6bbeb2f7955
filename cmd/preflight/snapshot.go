// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"preflight"
	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/report"
)

func snapshotCommand() *cobra.Command {
	var normalize bool
	var accepted acceptance
	cmd := &cobra.Command{
		Use:   "snapshot {-H hostfile | -- deepspeed … train.py …} -o golden.json",
		Short: "Save the facts of every node",
		Long: `Save the facts of every node. You can check a snapshot later, or compare it with a later
run.

With --accept, the -o file must be an existing baseline. snapshot updates only the facts
that you name, on the nodes that you select (-w, -i). It shows each value before and
after the update, and writes the file in normalized form. If any fact that you name has not
changed, snapshot writes nothing.

--accept takes a fact (host.kernel), a group of facts (net.interfaces.eth0) or a topic:
` + strings.Join(report.Wrap(strings.Join(agreement.TopicNames(), ", "), 88), "\n") + `.

Exit codes: 0 the snapshot was written, 2 it was not written or lacks some nodes.`,
		Args: commandOnly,
		RunE: launching(func(cmd *cobra.Command, config Config, command []string) error {
			config.Format = "json"
			switch {
			case accepted.names != nil:
				return accepting(cmd, config, command, accepted)
			case accepted.from != "" || accepted.dryRun:
				return usage.WithHint(errors.New("--from and --dry-run need --accept"), "preflight snapshot --accept host.kernel -o golden.json")
			}
			policy, err := config.policy()
			if err != nil {
				return err
			}
			began := time.Now()
			job, closeJob, err := config.job(cmd.Context(), command)
			if err != nil {
				return err
			}
			defer closeJob()
			snapshot := outputs.Product{Formats: []string{"json"}, IsSnapshot: normalize}
			if err := config.writable(snapshot, map[string]string{"the hostfile": job.Plan.Hostfile}); err != nil {
				return err
			}
			fleet, prediction := preflight.Look(cmd.Context(), job)
			closeJob()
			saved := config.stamped(engine.Evaluate(nil, fleet, prediction, checks.Policy{}), job.Plan, began)
			saved.Interrupted = cmd.Context().Err() != nil
			saved.Verdict, saved.ExitCode = checks.Pass, exitPass
			if lacking(saved) != "" {
				saved.Verdict, saved.ExitCode = checks.Unknown, exitTrouble
			}
			if err := config.save(saved, normalize); err != nil {
				return err
			}
			config.warnOf(faults(fleet, prediction, policy))
			return verdictCode(saved)
		}),
	}
	launchFlags(cmd.Flags())
	drillFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	cmd.Flags().StringArrayP("output", "o", nil, "write the snapshot to FILE (default: standard output)")
	cmd.Flags().BoolP("quiet", "q", false, "show neither progress nor a message about the file")
	accepted.flags(cmd)
	cmd.Flags().BoolVar(&normalize, "normalize", false, "leave out values that change on their own, and sort the rest, so that you can commit and review the file")
	return cmd
}

// lacking describes what is missing from a snapshot. It returns "" for a complete snapshot.
func lacking(saved checks.Report) string {
	lost := len(lostNodes(saved))
	var lacks []string
	if saved.Interrupted {
		lacks = append(lacks, "was interrupted")
	}
	if lost > 0 {
		lacks = append(lacks, fmt.Sprintf("lacks %d of %d nodes, which were not reached or lost during the run", lost, len(saved.Nodes)))
	}
	if lacks == nil {
		return ""
	}
	return "the snapshot " + strings.Join(lacks, " and ")
}

// replaceHint returns the commands that use the incomplete snapshot anyway, for example if a node
// no longer exists.
func replaceHint(saved checks.Report, kept, partial string) string {
	way := "to use it anyway: mv " + text.Quote(partial) + " " + text.Quote(kept)
	if lost := lostNodes(saved); lost != nil {
		way = "to leave these nodes out: --exclude " + text.Quote(strings.Join(lost, "@")) + "; " + way
	}
	return way
}

// lostNodes returns the nodes that were not reached or that were lost during the run.
func lostNodes(saved checks.Report) (names []string) {
	for _, node := range saved.Nodes {
		if !node.Reached || node.SSH != nil && node.SSH.Cause != "" {
			names = append(names, node.Name)
		}
	}
	return names
}

const partialEnding = ".partial"

// save writes a snapshot. An incomplete snapshot goes to a file with another name, so that it
// neither replaces a snapshot with all nodes nor becomes a baseline by mistake.
func (c Config) save(saved checks.Report, normalize bool) error {
	all := c.outputs()
	if lack := lacking(saved); lack != "" {
		fmt.Fprintln(os.Stderr, "preflight: "+lack)
		for i, o := range all {
			info, err := os.Stat(o.Path)
			if o.Printed() || err == nil && !info.Mode().IsRegular() {
				continue // a pipe, for example
			}
			all[i].Path += partialEnding
			all[i].Asked = "-o " + all[i].Path
			kept := "is unchanged"
			if err != nil {
				kept = "is not written"
			}
			fmt.Fprintf(os.Stderr, "preflight: %s %s; the incomplete snapshot goes to %s\n", text.Escape(o.Path), kept, text.Escape(all[i].Path))
			fmt.Fprintf(os.Stderr, "preflight: %s\n", replaceHint(saved, o.Path, all[i].Path))
		}
	}
	render := report.JSON[checks.Report]
	if normalize { // a normalized snapshot has the same bytes as long as no node changes
		render = report.Normalized
	}
	if err := outputs.Deliver(all, func(w io.Writer, _ string, _ report.Style) error { return render(w, saved) }); err != nil {
		return err
	}
	next := ""
	if normalize && lacking(saved) == "" {
		next = toCommit
	}
	for _, o := range all {
		if !o.Printed() {
			c.reportWritten(o.Path, len(saved.Nodes)-len(lostNodes(saved)), len(saved.Nodes), next)
		}
	}
	return nil
}

// faults returns the checks that fail on the nodes of a snapshot, with these nodes: "gpu-healthy
// w5; shm-size w[2-3]". It leaves out checks of values that change often, because a baseline does
// not compare those. It also leaves out lost nodes, which [lacking] reports.
func faults(fleet facts.Fleet, prediction launch.Prediction, policy checks.Policy) string {
	catalogue := slices.DeleteFunc(slices.Clone(catalogue.Catalogue), func(check checks.Check) bool {
		return !agreement.Lasts(check)
	})
	judged := engine.Evaluate(catalogue, fleet, prediction, policy)
	lost := lostNodes(judged)
	var ids, failing []string
	nodes := map[string][]string{}
	for _, f := range judged.Findings {
		seen := slices.DeleteFunc(slices.Clone(f.Nodes), func(name string) bool { return slices.Contains(lost, name) })
		if f.Verdict != checks.Fail || len(f.Nodes) > 0 && len(seen) == 0 {
			continue
		}
		if !slices.Contains(ids, f.Check) {
			ids = append(ids, f.Check)
		}
		nodes[f.Check] = append(nodes[f.Check], seen...)
	}
	for _, id := range ids {
		failing = append(failing, strings.TrimSpace(id+" "+hostfile.Fold(inOrder(fleet, nodes[id]))))
	}
	return strings.Join(failing, "; ")
}

// inOrder returns the named nodes in the order of the fleet, without duplicates.
func inOrder(fleet facts.Fleet, named []string) (names []string) {
	for _, node := range fleet.Nodes {
		if slices.Contains(named, node.Name) {
			names = append(names, node.Name)
		}
	}
	return names
}

func (c Config) warnOf(faulty string) {
	if faulty == "" {
		return
	}
	for _, o := range c.outputs() {
		file := o.Path
		if o.Printed() {
			file = "the snapshot"
		}
		fmt.Fprintf(os.Stderr, "preflight: %s records faults of today: %s\n", text.Escape(file), text.Escape(faulty))
	}
	fmt.Fprintln(os.Stderr, "  run preflight to see the fixes, then save the baseline again; otherwise drift reports each fix as a change")
}
