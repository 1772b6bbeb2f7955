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

// TestRunsAtOnce starts several runs on the same hosts at the same moment, as cron and a colleague
// might. The runs must wait for each other, and each must find the same as a run alone. A suspended
// run must also find the same. A run that may not open enough files must blame no node.
func TestRunsAtOnce(t *testing.T) {
	cluster := raise(t, "at-once")
	// Each run holds the port for only milliseconds. The test adds rounds, up to most, until a run
	// has had to wait for another run at the port.
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
			return // after a failure, a report may be missing
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

// suspended checks a run that is stopped and continued (Ctrl-Z and fg). It must find the same as
// any other run, and report that it was stopped.
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
				time.Sleep(3 * time.Second) // longer than the delays on a busy machine
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

// fewFiles checks that a limit on open files of the launching machine is reported as a problem of
// the launching machine.
func fewFiles(t *testing.T, cluster *testhosts.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // if preflight cannot open files, it might wait without end
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
