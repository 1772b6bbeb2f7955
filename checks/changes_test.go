package checks

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestChanges(t *testing.T) {
	value := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, c := range map[string]struct {
		change func(fleet *launchable)
		want   []Change
	}{
		"nothing": {func(*launchable) {}, []Change{}},
		"a value, an absence and an addition": {func(f *launchable) {
			f.Nodes[1].Host.Kernel = "6.8"
			delete(f.Nodes[1].Python.Packages, "numpy")
			f.Nodes[1].Python.Packages["apex"] = "0.1"
		}, []Change{
			{Node: "w2", Fact: "host.kernel", Before: value(`"5.15.0-107-generic"`), After: value(`"6.8"`)},
			{Node: "w2", Fact: "python.packages.apex", After: value(`"0.1"`)},
			{Node: "w2", Fact: "python.packages.numpy", Before: value(`"1.26.4"`)},
		}},
		"entries that came and went, and a name with its value": {func(f *launchable) {
			f.Nodes[1].Net.Interfaces[1].Name = "eth0.100"
			f.Nodes[1].NVML.Cards = f.Nodes[1].NVML.Cards[:7]
			f.Nodes[1].Env.Vars = append(f.Nodes[1].Env.Vars, facts.Setting{Name: "NCCL_IB_TC", Value: "106"})
		}, []Change{
			{Node: "w2", Fact: "env.vars.NCCL_IB_TC.value", After: value(`"106"`)},
			{Node: "w2", Fact: "net.interfaces.eth0", Before: value(`"present"`)},
			{Node: "w2", Fact: "net.interfaces.eth0.100", After: value(`"present"`)},
			{Node: "w2", Fact: "nvml.cards.7", Before: value(`"present"`)},
		}},
		"another machine, another GPU": {func(f *launchable) {
			f.Nodes[1].Host.MachineID, f.Nodes[1].NVML.Cards[2].UUID = "other", "GPU-other"
		}, []Change{
			{Node: "w2", Fact: "host.machine_id", Before: value(`"machine-1"`), After: value(`"other"`)},
			{Node: "w2", Fact: "nvml.cards.2.uuid", Before: quoted(healthyFleet(3).Nodes[1].NVML.Cards[2].UUID), After: value(`"GPU-other"`)},
		}},
		"a container started": {func(f *launchable) {
			f.Nodes[1].Net.Interfaces = append(f.Nodes[1].Net.Interfaces, facts.Interface{Name: "veth1a2b", Kind: "veth", Master: "docker0"})
		}, []Change{}},
		"VLANs on adapters that stay": {func(f *launchable) {
			vlan := func(name string, mtu int) facts.Interface { return facts.Interface{Name: name, MTU: mtu, Kind: "vlan"} }
			f.Nodes[1].Net.Interfaces = append(f.Nodes[1].Net.Interfaces, vlan("eth0.100", 1500), vlan("lo.5.6", 1500))
		}, []Change{
			{Node: "w2", Fact: "net.interfaces.eth0.100", After: value(`"present"`)},
			{Node: "w2", Fact: "net.interfaces.lo.5.6", After: value(`"present"`)},
		}},
		"another name": {func(f *launchable) { f.Nodes[1].Name = "w9" }, []Change{
			{Node: "w9", Fact: "name", Before: value(`"w2"`), After: value(`"w9"`)},
		}},
		"a new name, and an id that two had": {func(f *launchable) {
			f.Nodes[1].Name, f.Nodes[2].Name = "w8", "w9"
			f.Nodes[1].Host.MachineID, f.Nodes[2].Host.MachineID = "machine-1", "machine-1"
		}, []Change{
			{Node: "w8", Fact: "name", Before: value(`"w2"`), After: value(`"w8"`)},
			{Node: "w9", After: value(`"new node"`)},
			{Node: "w3", Before: value(`"node"`)},
		}},
		"the launching machine's pdsh": {func(f *launchable) { f.Head.Launcher.PDSH.Version = "2.35" }, []Change{
			{Node: "launching machine", Fact: "launcher.pdsh.version", Before: value(`"2.34"`), After: value(`"2.35"`)},
		}},
		"another launching machine": {func(f *launchable) {
			f.Head.Launcher.PDSH.Version, f.Head.Host.MachineID = "2.35", "other"
		}, []Change{}},
		"volatile facts":          {func(f *launchable) { f.Nodes[0].Host.Uptime, f.Nodes[0].SHM.Free = 1, 1 }, []Change{}},
		"not seen is not changed": {func(f *launchable) { f.Nodes[0].Python = nil }, []Change{}},
		"not reached any more": {func(f *launchable) {
			f.Nodes[0].Reached, f.Nodes[0].Facts = false, facts.Facts{SSH: &facts.SSH{Port: 22, Cause: "timed-out"}}
		}, []Change{{Node: "w1", Before: value(`"reached"`), After: value(`"not reached: timed-out"`)}}},
		"lost midway": {func(f *launchable) {
			f.Nodes[0].Facts = facts.Facts{SSH: &facts.SSH{Port: 22, Cause: "killed"}}
		}, []Change{{Node: "w1", Before: value(`"reached"`), After: value(`"reached, then lost: killed"`)}}},
		"a node went": {func(f *launchable) { f.Nodes = f.Nodes[1:] }, []Change{
			{Node: "w1", Before: value(`"node"`)},
		}},
	} {
		after := healthyFleet(3)
		c.change(&after)
		if diff := cmp.Diff(c.want, Changes(healthyFleet(3).Fleet, after.Fleet)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	came := Changes(healthyFleet(2).Fleet, healthyFleet(3).Fleet)
	if diff := cmp.Diff([]Change{{Node: "w3", After: value(`"new node"`)}}, came); diff != "" {
		t.Errorf("a node came (-want +got):\n%s", diff)
	}
}

// TestChangesClones: machines made of one image may share their id, and it says nothing then.
func TestChangesClones(t *testing.T) {
	before, after := healthyFleet(3), healthyFleet(3)
	before.Nodes[2].Host.MachineID = before.Nodes[1].Host.MachineID
	after.Nodes[1].Name, after.Nodes[2].Name = "w8", "w9"
	for _, c := range Changes(before.Fleet, after.Fleet) {
		if c.Fact == "name" {
			t.Errorf("%s was taken for %s", c.Node, c.Before)
		}
	}
}

// TestChangesVLAN: an adapter goes and its VLAN, whose name begins with the adapter's,
// stays with other values, and both go.
func TestChangesVLAN(t *testing.T) {
	before := healthyFleet(2)
	nics := &before.Nodes[1].Net.Interfaces
	vlan := (*nics)[1]
	vlan.Name, vlan.Kind = "eth0.100", "vlan"
	*nics = append(*nics, vlan)
	after := healthyFleet(2)
	vlan.MTU = 1500
	after.Nodes[1].Net.Interfaces = []facts.Interface{after.Nodes[1].Net.Interfaces[0], vlan}
	gone := Change{Node: "w2", Fact: "net.interfaces.eth0", Before: json.RawMessage(present)}
	want := []Change{gone, {Node: "w2", Fact: "net.interfaces.eth0.100.mtu", Before: json.RawMessage("9000"), After: json.RawMessage("1500")}}
	if diff := cmp.Diff(want, Changes(before.Fleet, after.Fleet)); diff != "" {
		t.Errorf("stays (-want +got):\n%s", diff)
	}
	after.Nodes[1].Net.Interfaces = after.Nodes[1].Net.Interfaces[:1]
	want = []Change{gone, {Node: "w2", Fact: "net.interfaces.eth0.100", Before: json.RawMessage(present)}}
	if diff := cmp.Diff(want, Changes(before.Fleet, after.Fleet)); diff != "" {
		t.Errorf("goes (-want +got):\n%s", diff)
	}
}

// TestChangesAddressLost: a container's own interface that has lost its address looks like
// the outer end of another's, and is none: the address is what went.
func TestChangesAddressLost(t *testing.T) {
	before, after := healthyFleet(2), healthyFleet(2)
	nic := func(f launchable) *facts.Interface { return &f.Nodes[1].Net.Interfaces[1] }
	nic(before).Kind, nic(after).Kind = "veth", "veth"
	want := []Change{{Node: "w2", Fact: "net.interfaces.eth0.addresses", Before: quoted(nic(before).IPv4())}}
	nic(after).Addresses = nil
	if diff := cmp.Diff(want, Changes(before.Fleet, after.Fleet)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
