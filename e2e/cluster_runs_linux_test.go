// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/testhosts"
)

// TestRunsAtOnce: runs that begin at the same moment on the same hosts, as cron and a
// colleague have it, step aside for each other: each of them meets, and finds what it finds
// alone. So does one that is stopped meanwhile, and one that may not open enough files
// blames nobody.
func TestRunsAtOnce(t *testing.T) {
	cluster := raise(t, "at-once")
	// More rounds than that only until two have joined at the port, which each holds for
	// milliseconds.
	const rounds, most, runs = 4, 24, 4
	alone := short(judge(t, cluster).Findings)
	waited := 0
	for round := 0; round < rounds || waited == 0 && round < most; round++ {
		reports := make([]checks.Report, runs)
		var all sync.WaitGroup
		for i := range reports {
			all.Go(func() { reports[i] = judge(t, cluster) })
		}
		all.Wait()
		if t.Failed() {
			return // a report may be missing
		}
		for _, report := range reports {
			if diff := cmp.Diff(alone, short(report.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			at := slices.IndexFunc(report.Checks, func(o checks.Outcome) bool { return o.Check == "rendezvous" })
			if outcome := report.Checks[at]; outcome.Verdict != checks.Pass {
				t.Errorf("rendezvous: %s %s", outcome.Verdict, outcome.Reason)
			}
			if seen := report.Nodes[0].Rendezvous; seen != nil && seen.Waited > 0 {
				waited++
			}
		}
	}
	if waited == 0 {
		t.Errorf("none of %d runs waited for another: they were not at the port at once", most*runs)
	}
	t.Run("suspended", func(t *testing.T) { suspended(t, cluster, alone) })
	t.Run("few files", func(t *testing.T) { fewFiles(t, cluster) })
}

// suspended: a run that is stopped in the middle and continued, as by Ctrl-Z and fg, finds
// what it finds otherwise, and says that it was.
func suspended(t *testing.T, cluster *testhosts.Cluster, want []string) {
	cmd := cluster.OnHead(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cuda", "--skip", "slots-fit", "--format", "json", "--progress", "plain")
	shown, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		lines := bufio.NewScanner(shown)
		for first := true; lines.Scan(); {
			if first && strings.Contains(lines.Text(), "look: begins") {
				first = false
				_ = cmd.Process.Signal(syscall.SIGSTOP)
				time.Sleep(3 * time.Second) // longer than a busy machine keeps anybody waiting
				_ = cmd.Process.Signal(syscall.SIGCONT)
			}
		}
	}()
	report := reported(t, cmd)
	<-over
	if diff := cmp.Diff(want, short(report.Findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if len(report.StoodStill) != 1 {
		t.Errorf("stood still %v, want once", report.StoodStill)
	}
}

// fewFiles: what the launching machine lacks is its own.
func fewFiles(t *testing.T, cluster *testhosts.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // whoever lacks files may wait for ever
	defer cancel()
	report := reported(t, cluster.OnHead(ctx, "sh", "-c", `ulimit -n 24 && exec "$@"`, "sh", binary(t), "-H", testhosts.HostfilePath, "--format", "json"))
	if report.ExitCode != 2 {
		t.Errorf("exit code %d, want 2", report.ExitCode)
	}
	for _, finding := range report.Findings {
		if finding.Verdict == checks.Fail || finding.Check == "ssh-reach" && !strings.Contains(finding.Summary, "a limit of the launching machine itself") {
			t.Errorf("%s %s %v: %s: got %s", finding.Verdict, finding.Check, finding.Nodes, finding.Summary, finding.Got)
		}
	}
}
