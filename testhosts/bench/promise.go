// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"text/tabwriter"

	"preflight/testhosts"
)

// promise is a performance target, which is a row of the table.
type promise struct {
	name  string
	today string  // the value when the target was set
	hold  float64 // upper limit
	unit  string  // "" for a ratio
	on    place
	// measure takes the measurement on the hosts of the place.
	measure func(ctx context.Context, b *bench, on *testhosts.Cluster) outcome
}

// outcome is the result of a measurement, or the reason why it was not made.
type outcome struct {
	sample
	notRun string
}

// place is the set of hosts on which a target is measured.
type place struct {
	name string // name of the cluster
	size func(b *bench) int
}

var (
	many    = place{"bench", func(b *bench) int { return b.nodes }}
	eight   = place{"bench8", func(*bench) int { return 8 }}
	process = place{"", func(*bench) int { return 0 }} // the benchmark starts its own hosts, or needs none
	places  = []place{many, eight, process}
)

// promises is the table of targets.
var promises = []promise{
	{"CPU, warm / pdsh hostname", "0.88", 0.6, "", many, ratio(warm, pdsh)},
	{"CPU, warm / pdsh hostname with curve25519 first", "2.5", 1.7, "", many, ratio(warm, lightPdsh)},
	{"CPU, cold / pdsh hostname", "1.40", 1.15, "", many, ratio(cold, pdsh)},
	{"launching machine: CPU a node, warm", "5.3", 4, "ms", many, headCPU(warm)},
	{"a frozen node of eight, --timeout 10s", "12.2–12.6", 13, "s", eight, frozen},
	{"pairs of runs at once that fail, of 15", "5", 0, "", eight, atOnce},
	{"10,000 in-process hosts: CPU a node", "not possible", 3, "ms", process, gobench(fleetBench, "Fleet/10000", "ms-cpu/host", 1)},
	{"10,000 in-process hosts: peak of the launching machine", "1,325", 1536, "MiB", process, gobench(fleetBench, "Fleet/10000", "MiB-peak", 1)},
	{"Evaluate, 10,000 nodes", "2.6", 1, "s", process, gobench(evaluateBench, "Evaluate10k/odd", "cpu-s/op", 1)},
	{"Evaluate, 10,000 nodes, DNS down on half", "minutes", 2, "s", process, gobench(evaluateBench, "Evaluate10k/nameless", "cpu-s/op", 1)},
}

// chosen returns the targets whose names match an expression.
func chosen(only string) ([]promise, error) {
	expression, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(slices.Clone(promises), func(p promise) bool { return !expression.MatchString(p.name) })
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row matches %q", only)
	}
	return rows, nil
}

// printPromises prints the table and reports whether all targets are met.
func printPromises(rows []promise, outcomes []outcome) bool {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\n\tbefore\ttarget\tmeasured\tkept")
	whole := true
	for i, row := range rows {
		got, verdict := outcomes[i].notRun, "NOT RUN"
		if got == "" {
			got, verdict = outcomes[i].text(2), "yes"
			if outcomes[i].median() > row.hold {
				verdict, whole = "NO", false
			}
		}
		fmt.Fprintf(out, "%s\t%s\t≤ %g\t%s\t%s\n", unitOf(row), row.today, row.hold, got, verdict)
	}
	out.Flush()
	return whole
}

func unitOf(row promise) string {
	if row.unit == "" {
		return row.name
	}
	return row.name + ", " + row.unit
}

// ratio returns a measurement of how much more processor time one contender takes than another in
// the same round, on the launching machine and the nodes together.
func ratio(of, by string) func(context.Context, *bench, *testhosts.Cluster) outcome {
	return func(ctx context.Context, b *bench, on *testhosts.Cluster) outcome {
		if err := b.contest(ctx, on); err != nil {
			return outcome{notRun: err.Error()}
		}
		return outcome{sample: b.of(of).both().by(b.of(by).both())}
	}
}

func headCPU(of string) func(context.Context, *bench, *testhosts.Cluster) outcome {
	return func(ctx context.Context, b *bench, on *testhosts.Cluster) outcome {
		if err := b.contest(ctx, on); err != nil {
			return outcome{notRun: err.Error()}
		}
		return outcome{sample: b.of(of).head}
	}
}
