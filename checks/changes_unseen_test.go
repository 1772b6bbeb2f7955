package checks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestUnseen(t *testing.T) {
	hung := func(f *launchable) {
		f.Nodes[1].NVML, f.Nodes[1].Missing = nil, map[facts.Section]string{facts.SectionNVML: "timed out"}
	}
	lost := func(f *launchable) {
		f.Nodes[0].Reached, f.Nodes[0].Facts = false, facts.Facts{SSH: &facts.SSH{Port: 22, Cause: "timed-out"}}
	}
	cpu := func(f *launchable) {
		f.NotTried = map[facts.Section]string{facts.SectionNVML: "accelerator cpu"}
		for i := range f.Nodes {
			f.Nodes[i].NVML = nil
		}
	}
	noCompilers := func(f *launchable) {
		f.NotTried = map[facts.Section]string{facts.SectionToolchain: "no op"}
		f.Nodes[0].Toolchain = nil
	}
	for name, c := range map[string]struct {
		before, after func(*launchable)
		want          []NotCompared
	}{
		"nothing":               {nil, nil, []NotCompared{}},
		"the driver hangs":      {nil, hung, []NotCompared{{Node: "w2", Section: "nvml", Reason: "timed out"}}},
		"the driver hung":       {hung, nil, []NotCompared{{Node: "w2", Section: "nvml", Reason: "timed out", Earlier: true}}},
		"gone without a reason": {nil, func(f *launchable) { f.Nodes[0].Python = nil }, []NotCompared{{Node: "w1", Section: "python", Reason: "not looked at"}}},
		"not to look at it then": {cpu, nil, []NotCompared{
			{Node: "w1", Section: "nvml", Reason: "accelerator cpu", Earlier: true, ByChoice: true},
			{Node: "w2", Section: "nvml", Reason: "accelerator cpu", Earlier: true, ByChoice: true},
		}},
		"not to look at it now": {nil, cpu, []NotCompared{
			{Node: "w1", Section: "nvml", Reason: "accelerator cpu"}, {Node: "w2", Section: "nvml", Reason: "accelerator cpu"},
		}},
		"compilers for another launch": {nil, noCompilers, []NotCompared{{Node: "w1", Section: "toolchain", Reason: "no op", ByChoice: true}}},
		"of one moment":                {nil, func(f *launchable) { f.Nodes[0].Mesh, f.Nodes[0].Clock = nil, nil }, []NotCompared{}},
		"reached once":                 {nil, lost, []NotCompared{}},
		"reached in neither":           {lost, lost, []NotCompared{{Node: "w1", Reason: "not reached: timed-out, and not before"}}},
		"new":                          {func(f *launchable) { f.Nodes = f.Nodes[1:] }, nil, []NotCompared{}},
		"the launching machine": {nil, func(f *launchable) { f.Head.Launcher, f.Head.Python = nil, nil }, []NotCompared{
			{Node: "launching machine", Section: "launcher", Reason: "not looked at"},
		}},
		"no id tells that it is the same": {
			func(f *launchable) { f.Head.Host.MachineID = "" },
			func(f *launchable) { f.Head.Launcher, f.Head.Host.MachineID = nil, "" }, []NotCompared{},
		},
		"another launching machine": {nil, func(f *launchable) { f.Head.Launcher, f.Head.Host.MachineID = nil, "other" }, []NotCompared{}},
	} {
		before, after := healthyFleet(2), healthyFleet(2)
		for fleet, change := range map[*launchable]func(*launchable){&before: c.before, &after: c.after} {
			if change != nil {
				change(fleet)
			}
		}
		if diff := cmp.Diff(c.want, Unseen(before.Fleet, after.Fleet)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLeftOutOnce: what was left out on every node is told once.
func TestLeftOutOnce(t *testing.T) {
	var left leftOut
	for _, node := range []string{"w1", "w2"} {
		left.note([]NotCompared{{Node: node, Section: facts.SectionNVML, Reason: "accelerator cpu", ByChoice: true}}, &facts.Node{Name: node})
	}
	if diff := cmp.Diff([]Finding{{Verdict: Pass, Summary: "not compared: nvml (accelerator cpu)"}}, left.finding()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLeadsAway: what leads to the other nodes does so whatever it is made of.
func TestLeadsAway(t *testing.T) {
	node := healthyFleet(2).Nodes[0]
	net := *node.Net
	node.Net = &net
	peers := peerInterface(&node)
	net.Interfaces = []facts.Interface{
		{Name: "lo", Loopback: true}, {Name: "docker0", Kind: "docker"}, {Name: "br7", Kind: "bridge"},
		{Name: "eth9", Kind: "physical"}, {Name: peers, Kind: "bridge", Up: true, Addresses: []string{node.Address + "/16"}},
	}
	for name, want := range map[string]bool{"lo": false, "docker0": false, "br7": false, "eth9": true, peers: true, "gone": true} {
		if got := leadsAway(&node, name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
