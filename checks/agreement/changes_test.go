// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

func TestChanges(t *testing.T) {
	value := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, c := range map[string]struct {
		change func(fleet *fleettest.Fleet)
		want   []checks.Change
	}{
		"nothing": {func(*fleettest.Fleet) {}, []checks.Change{}},
		"a value, an absence and an addition": {func(f *fleettest.Fleet) {
			f.Nodes[1].Host.Kernel = "6.8"
			delete(f.Nodes[1].Python.Packages, "numpy")
			f.Nodes[1].Python.Packages["apex"] = "0.1"
		}, []checks.Change{
			{Node: "w2", Fact: "host.kernel", Before: value(`"5.15.0-107-generic"`), After: value(`"6.8"`)},
			{Node: "w2", Fact: "python.packages.apex", After: value(`"0.1"`)},
			{Node: "w2", Fact: "python.packages.numpy", Before: value(`"1.26.4"`)},
		}},
		"entries that came and went, and a name with its value": {func(f *fleettest.Fleet) {
			f.Nodes[1].Net.Interfaces[1].Name = "eth0.100"
			f.Nodes[1].NVML.Cards = f.Nodes[1].NVML.Cards[:7]
			f.Nodes[1].Env.Vars = append(f.Nodes[1].Env.Vars, facts.Setting{Name: "NCCL_IB_TC", Value: "106"})
		}, []checks.Change{
			{Node: "w2", Fact: "env.vars.NCCL_IB_TC.value", After: value(`"106"`)},
			{Node: "w2", Fact: "net.interfaces.eth0", Before: value(`"present"`)},
			{Node: "w2", Fact: "net.interfaces.eth0.100", After: value(`"present"`)},
			{Node: "w2", Fact: "nvml.cards.7", Before: value(`"present"`)},
		}},
		"another machine, another GPU": {func(f *fleettest.Fleet) {
			f.Nodes[1].Host.MachineID, f.Nodes[1].NVML.Cards[2].UUID = "other", "GPU-other"
		}, []checks.Change{
			{Node: "w2", Fact: "host.machine_id", Before: value(`"machine-1"`), After: value(`"other"`)},
			{Node: "w2", Fact: "nvml.cards.2.uuid", Before: quoted(fleettest.Healthy(3).Nodes[1].NVML.Cards[2].UUID), After: value(`"GPU-other"`)},
		}},
		"a container started": {func(f *fleettest.Fleet) {
			f.Nodes[1].Net.Interfaces = append(f.Nodes[1].Net.Interfaces, facts.Interface{Name: "veth1a2b", Kind: "veth", Master: "docker0"})
		}, []checks.Change{}},
		"VLANs on adapters that stay": {func(f *fleettest.Fleet) {
			vlan := func(name string, mtu int) facts.Interface { return facts.Interface{Name: name, MTU: mtu, Kind: "vlan"} }
			f.Nodes[1].Net.Interfaces = append(f.Nodes[1].Net.Interfaces, vlan("eth0.100", 1500), vlan("lo.5.6", 1500))
		}, []checks.Change{
			{Node: "w2", Fact: "net.interfaces.eth0.100", After: value(`"present"`)},
			{Node: "w2", Fact: "net.interfaces.lo.5.6", After: value(`"present"`)},
		}},
		"what is a node's own": {func(f *fleettest.Fleet) {
			f.Nodes[1].Host.Hostname = "w2-old"
			f.Nodes[1].Net.Interfaces[1].MAC = "02:00:00:00:00:99"
			f.Nodes[1].IB.Devices[0].GUID = "other"
			f.Nodes[1].Disk.Places[0].Source = "nfs:/other"
		}, []checks.Change{
			{Node: "w2", Fact: "disk.places.workdir.source", Before: quoted(fleettest.Healthy(3).Nodes[1].Disk.Places[0].Source), After: value(`"nfs:/other"`)},
			{Node: "w2", Fact: "host.hostname", Before: value(`"w2"`), After: value(`"w2-old"`)},
			{Node: "w2", Fact: "ib.devices.mlx5_0.guid", Before: quoted(fleettest.Healthy(3).Nodes[1].IB.Devices[0].GUID), After: value(`"other"`)},
			{Node: "w2", Fact: "net.interfaces.eth0.mac", Before: quoted(fleettest.Healthy(3).Nodes[1].Net.Interfaces[1].MAC), After: value(`"02:00:00:00:00:99"`)},
		}},
		"what a boot names and numbers": {func(f *fleettest.Fleet) {
			f.Nodes[1].NVML.Cards[0].Address, f.Nodes[1].IB.Devices[0].Verbs = "0000:ff:00.0", "/dev/infiniband/uverbs9"
		}, []checks.Change{}},
		"another name": {func(f *fleettest.Fleet) { f.Nodes[1].Name = "w9" }, []checks.Change{
			{Node: "w9", Fact: "name", Before: value(`"w2"`), After: value(`"w9"`)},
		}},
		"a new name, and an id that two had": {func(f *fleettest.Fleet) {
			f.Nodes[1].Name, f.Nodes[2].Name = "w8", "w9"
			f.Nodes[1].Host.MachineID, f.Nodes[2].Host.MachineID = "machine-1", "machine-1"
		}, []checks.Change{
			{Node: "w8", Fact: "name", Before: value(`"w2"`), After: value(`"w8"`)},
			{Node: "w9", After: value(`"new node"`)},
			{Node: "w3", Before: value(`"node"`)},
		}},
		"the launching machine's pdsh": {func(f *fleettest.Fleet) { f.Head.Launcher.PDSH.Version = "2.35" }, []checks.Change{
			{Node: "launching machine", Fact: "launcher.pdsh.version", Before: value(`"2.34"`), After: value(`"2.35"`)},
		}},
		"another launching machine": {func(f *fleettest.Fleet) {
			f.Head.Launcher.PDSH.Version, f.Head.Host.MachineID = "2.35", "other"
		}, []checks.Change{}},
		"volatile facts":          {func(f *fleettest.Fleet) { f.Nodes[0].Host.Uptime, f.Nodes[0].SHM.Free = 1, 1 }, []checks.Change{}},
		"not seen is not changed": {func(f *fleettest.Fleet) { f.Nodes[0].Python = nil }, []checks.Change{}},
		"not reached any more": {func(f *fleettest.Fleet) {
			f.Nodes[0].Reached, f.Nodes[0].Facts = false, facts.Facts{SSH: &facts.SSH{Port: 22, Cause: "timed-out"}}
		}, []checks.Change{{Node: "w1", Before: value(`"reached"`), After: value(`"not reached: timed-out"`)}}},
		"lost midway": {func(f *fleettest.Fleet) {
			f.Nodes[0].Facts = facts.Facts{SSH: &facts.SSH{Port: 22, Cause: "killed"}}
		}, []checks.Change{{Node: "w1", Before: value(`"reached"`), After: value(`"reached, then lost: killed"`)}}},
		"a node went": {func(f *fleettest.Fleet) { f.Nodes = f.Nodes[1:] }, []checks.Change{
			{Node: "w1", Before: value(`"node"`)},
		}},
	} {
		after := fleettest.Healthy(3)
		c.change(&after)
		if diff := cmp.Diff(c.want, Changes(fleettest.Healthy(3).Fleet, after.Fleet)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	came := Changes(fleettest.Healthy(2).Fleet, fleettest.Healthy(3).Fleet)
	if diff := cmp.Diff([]checks.Change{{Node: "w3", After: value(`"new node"`)}}, came); diff != "" {
		t.Errorf("a node came (-want +got):\n%s", diff)
	}
}

// TestChangesClones checks that an ID shared by several machines identifies none of them. Machines
// made from one image may share an ID.
func TestChangesClones(t *testing.T) {
	before, after := fleettest.Healthy(3), fleettest.Healthy(3)
	before.Nodes[2].Host.MachineID = before.Nodes[1].Host.MachineID
	after.Nodes[1].Name, after.Nodes[2].Name = "w8", "w9"
	for _, c := range Changes(before.Fleet, after.Fleet) {
		if c.Fact == "name" {
			t.Errorf("%s was taken for %s", c.Node, c.Before)
		}
	}
}

// TestChangesVLAN checks an adapter and its VLAN, whose name begins with the adapter's name. First
// the adapter disappears while the VLAN stays with other values. Then both disappear.
func TestChangesVLAN(t *testing.T) {
	before := fleettest.Healthy(2)
	nics := &before.Nodes[1].Net.Interfaces
	vlan := (*nics)[1]
	vlan.Name, vlan.Kind = "eth0.100", "vlan"
	*nics = append(*nics, vlan)
	after := fleettest.Healthy(2)
	vlan.MTU = 1500
	after.Nodes[1].Net.Interfaces = []facts.Interface{after.Nodes[1].Net.Interfaces[0], vlan}
	gone := checks.Change{Node: "w2", Fact: "net.interfaces.eth0", Before: json.RawMessage(present)}
	want := []checks.Change{gone, {Node: "w2", Fact: "net.interfaces.eth0.100.mtu", Before: json.RawMessage("9000"), After: json.RawMessage("1500")}}
	if diff := cmp.Diff(want, Changes(before.Fleet, after.Fleet)); diff != "" {
		t.Errorf("stays (-want +got):\n%s", diff)
	}
	after.Nodes[1].Net.Interfaces = after.Nodes[1].Net.Interfaces[:1]
	want = []checks.Change{gone, {Node: "w2", Fact: "net.interfaces.eth0.100", Before: json.RawMessage(present)}}
	if diff := cmp.Diff(want, Changes(before.Fleet, after.Fleet)); diff != "" {
		t.Errorf("goes (-want +got):\n%s", diff)
	}
}

// TestChangesAddressLost checks that a lost address is reported as a change. Without its address,
// an interface of a container looks like the outer end of another container's interface.
func TestChangesAddressLost(t *testing.T) {
	before, after := fleettest.Healthy(2), fleettest.Healthy(2)
	nic := func(f fleettest.Fleet) *facts.Interface { return &f.Nodes[1].Net.Interfaces[1] }
	nic(before).Kind, nic(after).Kind = "veth", "veth"
	want := []checks.Change{{Node: "w2", Fact: "net.interfaces.eth0.addresses", Before: quoted(nic(before).IPv4())}}
	nic(after).Addresses = nil
	if diff := cmp.Diff(want, Changes(before.Fleet, after.Fleet)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnseen(t *testing.T) {
	hung := func(f *fleettest.Fleet) {
		f.Nodes[1].NVML, f.Nodes[1].Missing = nil, map[facts.Section]string{facts.SectionNVML: "timed out"}
	}
	lost := func(f *fleettest.Fleet) {
		f.Nodes[0].Reached, f.Nodes[0].Facts = false, facts.Facts{SSH: &facts.SSH{Port: 22, Cause: "timed-out"}}
	}
	cpu := func(f *fleettest.Fleet) {
		f.NotTried = map[facts.Section]string{facts.SectionNVML: "accelerator cpu"}
		for i := range f.Nodes {
			f.Nodes[i].NVML = nil
		}
	}
	noCompilers := func(f *fleettest.Fleet) {
		f.NotTried = map[facts.Section]string{facts.SectionToolchain: "no op"}
		f.Nodes[0].Toolchain = nil
	}
	for name, c := range map[string]struct {
		before, after func(*fleettest.Fleet)
		want          []NotCompared
	}{
		"nothing":               {nil, nil, []NotCompared{}},
		"the driver hangs":      {nil, hung, []NotCompared{{Node: "w2", Section: "nvml", Reason: "timed out"}}},
		"the driver hung":       {hung, nil, []NotCompared{{Node: "w2", Section: "nvml", Reason: "timed out", Earlier: true}}},
		"gone without a reason": {nil, func(f *fleettest.Fleet) { f.Nodes[0].Python = nil }, []NotCompared{{Node: "w1", Section: "python", Reason: "not checked"}}},
		"not to look at it then": {cpu, nil, []NotCompared{
			{Node: "w1", Section: "nvml", Reason: "accelerator cpu", Earlier: true, ByChoice: true},
			{Node: "w2", Section: "nvml", Reason: "accelerator cpu", Earlier: true, ByChoice: true},
		}},
		"not to look at it now": {nil, cpu, []NotCompared{
			{Node: "w1", Section: "nvml", Reason: "accelerator cpu"}, {Node: "w2", Section: "nvml", Reason: "accelerator cpu"},
		}},
		"compilers for another launch": {nil, noCompilers, []NotCompared{{Node: "w1", Section: "toolchain", Reason: "no op", ByChoice: true}}},
		"of one moment":                {nil, func(f *fleettest.Fleet) { f.Nodes[0].Mesh, f.Nodes[0].Clock = nil, nil }, []NotCompared{}},
		"reached once":                 {nil, lost, []NotCompared{}},
		"reached in neither":           {lost, lost, []NotCompared{{Node: "w1", Reason: "not reached: timed-out, now and before"}}},
		"new":                          {func(f *fleettest.Fleet) { f.Nodes = f.Nodes[1:] }, nil, []NotCompared{}},
		"the launching machine": {nil, func(f *fleettest.Fleet) { f.Head.Launcher, f.Head.Python = nil, nil }, []NotCompared{
			{Node: "launching machine", Section: "launcher", Reason: "not checked"},
		}},
		"no id tells that it is the same": {
			func(f *fleettest.Fleet) { f.Head.Host.MachineID = "" },
			func(f *fleettest.Fleet) { f.Head.Launcher, f.Head.Host.MachineID = nil, "" }, []NotCompared{},
		},
		"another launching machine": {nil, func(f *fleettest.Fleet) { f.Head.Launcher, f.Head.Host.MachineID = nil, "other" }, []NotCompared{}},
	} {
		before, after := fleettest.Healthy(2), fleettest.Healthy(2)
		for fleet, change := range map[*fleettest.Fleet]func(*fleettest.Fleet){&before: c.before, &after: c.after} {
			if change != nil {
				change(fleet)
			}
		}
		if diff := cmp.Diff(c.want, Unseen(before.Fleet, after.Fleet)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLeftOutOnce checks that a section that was left out on every node is listed once.
func TestLeftOutOnce(t *testing.T) {
	var left uncompared
	for _, node := range []string{"w1", "w2"} {
		left.add([]NotCompared{{Node: node, Section: facts.SectionNVML, Reason: "accelerator cpu", ByChoice: true}}, "", []string{node})
	}
	if diff := cmp.Diff([]checks.Finding{{Verdict: checks.Pass, Summary: "not compared: nvml (accelerator cpu)"}}, left.finding()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLeadsAway checks that every kind of interface can lead to the other nodes.
func TestLeadsAway(t *testing.T) {
	node := fleettest.Healthy(2).Nodes[0]
	net := *node.Net
	node.Net = &net
	peers := names.PeerInterface(&node)
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

// TestOwnFactsHaveAPlace checks that every fact that differs between nodes is either compared with
// its earlier value or listed in NeverCompared. It also checks that NeverCompared lists no other
// facts.
func TestOwnFactsHaveAPlace(t *testing.T) {
	known := map[string]bool{}
	for _, d := range facts.DescribedOwn() {
		known[d.Path] = true
	}
	for _, left := range NeverCompared {
		if !known[left.Facts] || left.Why == "" {
			t.Errorf("%s: there is no such fact of a node's own, or no reason (%q)", left.Facts, left.Why)
		}
		if slices.Contains(OwnFacts(), left.Facts) {
			t.Errorf("%s is compared and left out", left.Facts)
		}
	}
	if n := len(OwnFacts()) + len(NeverCompared); n != len(known) {
		t.Errorf("%d facts have a place, of %d", n, len(known))
	}
}

// TestNotRecorded checks facts that are newer than a file. The file does not record such a fact,
// but that does not mean that the fact was absent. An absent fact is null.
func TestNotRecorded(t *testing.T) {
	before, after := fleettest.Healthy(2).Fleet, fleettest.Healthy(2).Fleet
	before.Nodes[0].Host.Libc, before.Nodes[0].Net.TCP = "", nil
	before.Nodes[1].Host.Libc = ""
	before.Nodes[0].Unrecorded = map[string]bool{"host.libc": true, "net.tcp": true}
	want := []checks.Change{{Node: "w2", Fact: "host.libc", Before: json.RawMessage(`""`), After: quoted(after.Nodes[1].Host.Libc)}}
	if diff := cmp.Diff(want, Changes(before, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	missed := []NotCompared{
		{Node: "w1", Section: facts.SectionHost, Reason: "host.libc not recorded", Earlier: true, ByChoice: true},
		{Node: "w1", Section: facts.SectionNet, Reason: "net.tcp not recorded", Earlier: true, ByChoice: true},
	}
	if diff := cmp.Diff(missed, Unseen(before, after)); diff != "" {
		t.Errorf("not compared (-want +got):\n%s", diff)
	}
}
