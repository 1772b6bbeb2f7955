package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/report"
)

// faults are the checks that fail on the nodes of a snapshot, with the nodes: "gpu-healthy
// w5; shm-size w[2-3]". Those that judge by nothing that lasts do not count, for nobody
// compares that later on, and of nodes that were lost [lacking] tells.
func faults(fleet facts.Fleet, prediction launch.Prediction, policy checks.Policy) string {
	catalogue := slices.DeleteFunc(slices.Clone(checks.Catalogue), func(check checks.Check) bool {
		return !checks.Lasts(check)
	})
	judged := checks.Evaluate(catalogue, fleet, prediction, policy)
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

// inOrder are the nodes of a fleet that have been named, each once.
func inOrder(fleet facts.Fleet, named []string) (names []string) {
	for _, node := range fleet.Nodes {
		if slices.Contains(named, node.Name) {
			names = append(names, node.Name)
		}
	}
	return names
}

// warnOf says on standard error what a snapshot takes for good that is not.
func (c Config) warnOf(faulty string) {
	if faulty == "" {
		return
	}
	for _, o := range c.outputs() {
		file := o.Path
		if o.Printed() {
			file = "the snapshot"
		}
		fmt.Fprintf(os.Stderr, "preflight: %s records what fails today: %s\n", report.Escape(file), report.Escape(faulty))
	}
	fmt.Fprintln(os.Stderr, "  a run says how to fix it; take a baseline after that, or drift will report the fix as a change")
}
