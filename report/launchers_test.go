// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/diagnose/rendezvous"
	"preflight/facts"
)

// TestLaunchersOfRun checks the line about torchrun's launchers and their last heartbeats.
func TestLaunchersOfRun(t *testing.T) {
	heard := func(address string, pid int, ago float64) facts.Gatherer {
		return facts.Gatherer{Address: address, PID: pid, Silent: &ago}
	}
	var out strings.Builder
	err := EndpointText(&out, rendezvous.Report{Gathering: &facts.Gathering{RunID: "run7", Round: 3, Complete: true,
		Joined:  []facts.Gatherer{heard("w1", 4242, 2.25), {Address: "w2", PID: 70000}},
		Waiting: []facts.Gatherer{heard("w3\x1b[2J", 7, 95)},
		Spare:   []facts.Gatherer{heard("w4", 9, -3)},
	}}, Style{})
	want := "run run7 round 3, 2 launchers joined: w1 (pid 4242, last heard 2.3 s ago), w2 (pid 70000); complete: the ranks have been started; " +
		`waiting for the next round: w3\x1b[2J (pid 7, last heard 95 s ago); surplus: w4 (pid 9, last heard 0 s ago)`
	if got := strings.Join(strings.Fields(out.String()), " "); err != nil || !strings.Contains(got, want) {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

// TestRoll checks the line about the clients that torch counted.
func TestRoll(t *testing.T) {
	joined, ranks := 1, 5
	for want, roll := range map[string]*facts.Roll{
		"store count 1 client joined; 5 ranks at the barrier of init_process_group": {Joined: &joined, Barrier: &ranks},
		"store count torchrun joined on nodes 0, 2; missing: node 1":                {Came: []int{0, 2}, Absent: []int{1}},
	} {
		var out strings.Builder
		err := EndpointText(&out, rendezvous.Report{Roll: roll}, Style{})
		if got := strings.Join(strings.Fields(out.String()), " "); err != nil || !strings.Contains(got, want) {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}

// TestEndpointOfHangingJob checks that a store which answers is not blamed for a job that hangs.
func TestEndpointOfHangingJob(t *testing.T) {
	for _, c := range []struct {
		findings []checks.Verdict
		want     string
	}{
		{nil, "FAIL  a store answers, but the job hangs at w1:29500"},
		{[]checks.Verdict{checks.Unknown}, "FAIL  a store answers, but the job hangs at w1:29500"},
		{[]checks.Verdict{checks.Unknown, checks.Fail}, "FAIL  this rendezvous cannot work: w1:29500"},
	} {
		r := rendezvous.Report{Endpoint: "w1:29500", Verdict: checks.Fail}
		for _, verdict := range c.findings {
			r.Findings = append(r.Findings, checks.Finding{Check: "rendezvous", Verdict: verdict})
		}
		var out strings.Builder
		if err := EndpointText(&out, r, Style{}); err != nil || !strings.HasPrefix(out.String(), c.want+"\n") {
			t.Errorf("%v\n got %s\nwant %s", err, out.String(), c.want)
		}
	}
}
