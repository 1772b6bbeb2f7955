// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"preflight/testhosts"
)

// frozen returns the duration of a run in which one node accepts connections and never answers.
func frozen(ctx context.Context, b *bench, on *testhosts.Cluster) outcome {
	const times = 3
	if _, err := b.onHead(ctx, on, true, b.argv()...); err != nil {
		return outcome{notRun: err.Error()}
	}
	thaw, err := on.Nodes[len(on.Nodes)-1].Freeze()
	if err != nil {
		return outcome{notRun: err.Error()}
	}
	var seconds sample
	for range times {
		took, failure := b.onHead(ctx, on, true, b.argv("--timeout", "10s")...)
		if err = cmp.Or(err, failure); err == nil {
			seconds = append(seconds, took.Seconds())
		}
	}
	if err := cmp.Or(err, thaw()); err != nil {
		return outcome{notRun: err.Error()}
	}
	return outcome{sample: seconds}
}

// atOnce runs preflight twice on the same healthy hosts at the same time. It counts how often one
// of the two runs reports a problem.
func atOnce(ctx context.Context, b *bench, on *testhosts.Cluster) outcome {
	const pairs = 15
	if _, err := b.onHead(ctx, on, false, b.argv()...); err != nil {
		return outcome{notRun: "one alone fails: " + err.Error()}
	}
	failed := 0.0
	for range pairs {
		var both sync.WaitGroup
		var failures [2]error
		for i := range failures {
			both.Go(func() { _, failures[i] = b.onHead(ctx, on, false, b.argv()...) })
		}
		both.Wait()
		if cmp.Or(failures[0], failures[1]) != nil {
			failed++
		}
	}
	return outcome{sample: sample{failed}}
}

// metrics maps the name of a benchmark to its results in go test, by unit.
type metrics map[string]map[string]float64

// These are the packages with the benchmarks to run, and the expressions that select the
// benchmarks.
var (
	fleetBench    = [2]string{"./e2e", "Fleet/^(1000|10000)$"}
	evaluateBench = [2]string{"./checks/catalogue", "Evaluate10k/^(odd|nameless)$"}
)

// gobench returns a measurement that reads a value of a Go benchmark, multiplied by a factor.
func gobench(of [2]string, name, unit string, factor float64) func(context.Context, *bench, *testhosts.Cluster) outcome {
	return func(ctx context.Context, b *bench, _ *testhosts.Cluster) outcome {
		key := strings.Join(of[:], " ")
		if b.gobench[key] == nil {
			b.others.look()
			out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", of[1], "-benchtime", "1x", "-timeout", "20m", of[0]).CombinedOutput()
			if b.gobench == nil {
				b.gobench = map[string]metrics{}
			}
			if b.gobench[key] = parseBenchmarks(string(out)); err != nil {
				return outcome{notRun: lastLine(string(out)) + " (" + err.Error() + ")"}
			}
		}
		value, found := b.gobench[key][name][unit]
		if !found {
			return outcome{notRun: "go test -bench " + name + " " + filepath.Clean(of[0]) + " tells no " + unit}
		}
		return outcome{sample: sample{value * factor}}
	}
}

// benchmarkLine matches BenchmarkName/sub-PROCESSORS, the number of iterations, and pairs of value
// and unit.
var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

func parseBenchmarks(output string) metrics {
	all := metrics{}
	for _, line := range benchmarkLine.FindAllStringSubmatch(output, -1) {
		of := map[string]float64{}
		fields := strings.Fields(line[2])
		for i := 0; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				of[fields[i+1]] = value
			}
		}
		all[line[1]] = of
	}
	return all
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
