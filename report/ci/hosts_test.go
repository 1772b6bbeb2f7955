// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/testhosts/reporttest"
)

// fleet returns a run over w1 to w4, each with the given slots. nil means that the slots are
// unknown.
func fleet(slots []int, findings ...checks.Finding) checks.Report {
	r := checks.Report{Findings: findings}
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		r.Nodes = append(r.Nodes, facts.Node{Name: name, Slots: len(slots), Reached: true})
		r.Launch.Hosts = append(r.Launch.Hosts, hostfile.Host{Name: name, Slots: slots})
	}
	return r
}

func found(v checks.Verdict, nodes ...string) checks.Finding {
	return checks.Finding{Check: "c", Verdict: v, Nodes: nodes, Summary: "s"}
}

func TestGoodAndBadHosts(t *testing.T) {
	lost := fleet([]int{0, 1})
	lost.Nodes[2].Reached = false
	strictly := fleet([]int{0, 1}, found(checks.Warn, "w1"))
	strictly.Strict = true
	older := fleet([]int{0, 1}, found(checks.Fail, "w1"))
	older.Launch.DeepSpeed = "0.7.7"
	idle := fleet([]int{})
	noPdsh := fleet([]int{0}, found(checks.Fail, "launching machine"))
	noPdsh.Head = &facts.Node{Name: "launching machine"}
	gone := fleet([]int{0}, found(checks.Fail, "w9"))
	gone.Head = noPdsh.Head
	known := fleet([]int{0})
	known.Waived = []checks.Waived{{Finding: found(checks.Fail, "w2")}}
	for name, c := range map[string]struct {
		report    checks.Report
		good, bad string
	}{
		"nothing wrong": {fleet([]int{0, 1}), "# good hosts, by preflight: 4 of 4 nodes\nw1 slots=2\nw2 slots=2\nw3 slots=2\nw4 slots=2\n", "# bad hosts, by preflight: 0 of 4 nodes\n"},
		"one failed":    {fleet([]int{0, 1}, found(checks.Fail, "w4", "w2")), "# good hosts, by preflight: 2 of 4 nodes\nw1 slots=2\nw3 slots=2\n", "# bad hosts, by preflight: 2 of 4 nodes\nw2\nw4\n"},
		"warned, unknown": {fleet([]int{0}, found(checks.Warn, "w1"), found(checks.Unknown, "w2")),
			"# good hosts, by preflight: 3 of 4 nodes; 1 unknown: w2\nw1 slots=1\nw3 slots=1\nw4 slots=1\n", "# bad hosts, by preflight: 0 of 4 nodes; 1 unknown: w2\n"},
		"strict":             {strictly, "# good hosts, by preflight: 3 of 4 nodes\nw2 slots=2\nw3 slots=2\nw4 slots=2\n", "# bad hosts, by preflight: 1 of 4 nodes\nw1\n"},
		"not reached":        {lost, "# good hosts, by preflight: 3 of 4 nodes; 1 unknown: w3\nw1 slots=2\nw2 slots=2\nw4 slots=2\n", "# bad hosts, by preflight: 0 of 4 nodes; 1 unknown: w3\n"},
		"the launch failed":  {fleet([]int{0}, found(checks.Fail)), "# good hosts, by preflight: 0 of 4 nodes\n# no node can be used: c fails for the whole launch\n", "# bad hosts, by preflight: 0 of 4 nodes\n"},
		"it and a node":      {fleet([]int{0}, found(checks.Fail), found(checks.Fail, "w2"), found(checks.Fail)), "# good hosts, by preflight: 0 of 4 nodes\n# no node can be used: c fails for the whole launch\n", "# bad hosts, by preflight: 1 of 4 nodes\nw2\n"},
		"launching machine":  {noPdsh, "# good hosts, by preflight: 0 of 4 nodes\n# no node can be used: c fails for the whole launch\n", "# bad hosts, by preflight: 0 of 4 nodes\n"},
		"a node that left":   {gone, "# good hosts, by preflight: 4 of 4 nodes\nw1 slots=1\nw2 slots=1\nw3 slots=1\nw4 slots=1\n", "# bad hosts, by preflight: 0 of 4 nodes\n"},
		"waived":             {known, "# good hosts, by preflight: 4 of 4 nodes\nw1 slots=1\nw2 slots=1\nw3 slots=1\nw4 slots=1\n", "# bad hosts, by preflight: 0 of 4 nodes\n"},
		"no slots stated":    {fleet(nil, found(checks.Fail, "w1")), "# good hosts, by preflight: 3 of 4 nodes\nw2\nw3\nw4\n", "# bad hosts, by preflight: 1 of 4 nodes\nw1\n"},
		"none used":          {idle, "# good hosts, by preflight: 4 of 4 nodes\nw1 slots=0\nw2 slots=0\nw3 slots=0\nw4 slots=0\n", "# bad hosts, by preflight: 0 of 4 nodes\n"},
		"DeepSpeed of old":   {older, "w2 slots=2\nw3 slots=2\nw4 slots=2\n", "# bad hosts, by preflight: 1 of 4 nodes\nw1\n"},
		"nobody at all, yet": {checks.Report{}, "# good hosts, by preflight: 0 of 0 nodes\n", "# bad hosts, by preflight: 0 of 0 nodes\n"},
	} {
		if diff := cmp.Diff(c.good, reporttest.Rendered(t, GoodHosts, c.report)); diff != "" {
			t.Errorf("%s: good (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.bad, reporttest.Rendered(t, BadHosts, c.report)); diff != "" {
			t.Errorf("%s: bad (-want +got):\n%s", name, diff)
		}
	}
}

// TestGoodHostsAreWhatDeepSpeedReads checks that DeepSpeed reads the slots that were checked from
// the hostfile. If it cannot, the --include option in the error must select these slots.
func TestGoodHostsAreWhatDeepSpeedReads(t *testing.T) {
	slotsOf := func(hosts []hostfile.Host) map[string][]int {
		slots := map[string][]int{}
		for _, host := range hosts {
			slots[host.Name] = host.Slots
		}
		return slots
	}
	r := fleet([]int{0, 1, 2}, found(checks.Fail, "w1"))
	hosts, _, err := hostfile.Parse(strings.NewReader(reporttest.Rendered(t, GoodHosts, r)), "good", "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]int{"w2": {0, 1, 2}, "w3": {0, 1, 2}, "w4": {0, 1, 2}}, slotsOf(hosts)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	r.Launch.Hosts[0].Slots = []int{4} // slots of a node that is left out
	reporttest.Rendered(t, GoodHosts, r)
	r.Launch.Hosts[2].Slots = []int{2, 5}
	var out bytes.Buffer
	if err = GoodHosts(&out, r); err == nil || out.Len() > 0 {
		t.Fatalf("slots 2 and 5 of w3 are lost in %q", out.String())
	}
	_, include, _ := strings.Cut(err.Error(), "--include='")
	include, _, _ = strings.Cut(include, "'")
	hosts, _, err = hostfile.Parse(strings.NewReader("w1 slots=8\nw2 slots=3\nw3 slots=8\nw4 slots=3\n"), "hostfile", "")
	if err != nil {
		t.Fatal(err)
	}
	hosts, _, err = hostfile.Filter{Include: include, NumNodes: hostfile.AtMost(-1), NumGPUs: hostfile.AtMost(-1)}.Apply(hosts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]int{"w2": {0, 1, 2}, "w3": {2, 5}, "w4": {0, 1, 2}}, slotsOf(hosts)); diff != "" {
		t.Errorf("--include=%s (-want +got):\n%s", include, diff)
	}
}

func TestHostsRefuseWhatIsNoName(t *testing.T) {
	for _, name := range []string{"", "w1\nw2 slots=9", "w1 slots=9", "#w1", "w\t1", "w\u2028x", reporttest.Evil} {
		r := checks.Report{Fleet: facts.Fleet{Nodes: []facts.Node{{Name: name, Reached: true}}}, Launch: launch.Prediction{}}
		for _, render := range []func(io.Writer, checks.Report) error{GoodHosts, BadHosts} {
			var out bytes.Buffer
			if err := render(&out, r); err == nil || out.Len() > 0 {
				t.Errorf("%q was written: %q", name, out.String())
			}
		}
	}
}
