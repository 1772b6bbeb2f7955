// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/dsconfig"
	"preflight/testhosts/launchtest"
)

// hosts returns w1, w2, … with the given numbers of slots.
func hosts(slots ...int) []hostfile.Host {
	var all []hostfile.Host
	for i, n := range slots {
		host := hostfile.Host{Name: "w" + string(rune('1'+i)), Slots: []int{}, Line: i + 1}
		for slot := range n {
			host.Slots = append(host.Slots, slot)
		}
		all = append(all, host)
	}
	return all
}

func TestInterpreter(t *testing.T) {
	script := &facts.Launcher{DeepSpeed: "/opt/conda/bin/deepspeed", Interpreter: "/opt/conda/bin/python3.11"}
	for _, c := range []struct {
		given      string
		head       *facts.Launcher
		path, from string
	}{
		{"/usr/bin/python3", script, "/usr/bin/python3", "--python"},
		{"", script, "/opt/conda/bin/python3.11", "/opt/conda/bin/deepspeed"},
		{"", &facts.Launcher{}, "", ""},
		{"", nil, "", ""},
	} {
		if path, from := Interpreter(c.given, c.head); path != c.path || from != c.from {
			t.Errorf("Interpreter(%q, %v) = %q, %q; want %q, %q", c.given, c.head, path, from, c.path, c.from)
		}
	}
}

func TestPredict(t *testing.T) {
	head := &facts.Node{Facts: facts.Facts{
		Env: &facts.Env{Vars: launchtest.Env("environment", "NCCL_DEBUG=INFO")},
		Launcher: &facts.Launcher{DeepSpeed: "/usr/bin/deepspeed", Interpreter: "/usr/bin/python3",
			EnvFiles: []facts.EnvFile{{Path: "/job/.deepspeed_env", Lines: []string{"A=$B"}}}},
	}}
	noted := hostfile.Note{ID: "zero-slots"}
	two, one := hosts(8, 8), hosts(8)
	exports := []facts.Setting{{Name: "A", Value: "$B", Source: "/job/.deepspeed_env"},
		{Name: "NCCL_DEBUG", Value: "INFO", Source: "environment"}, {Name: "PYTHONPATH", Value: "/job", Source: "deepspeed"}}

	for _, c := range []struct {
		name  string
		o     Options
		head  *facts.Node
		want  Prediction
		traps []string
	}{
		{"defaults", Options{Hosts: two, WorkDir: "/job"}, nil,
			Prediction{Program: "deepspeed", Hosts: two, Launcher: "pdsh", Rendezvous: "deepspeed", MasterPort: 29500, Accelerator: "cuda", AcceleratorAssumed: true, WorkDir: "/job", Exports: exports[2:]}, nil},
		{"all of it", Options{Hosts: two, Notes: []hostfile.Note{noted}, Launcher: "PDSH", MasterAddr: "10.0.0.1", MasterPort: 4000, SSHPort: 2222, Accelerator: "cuda", WorkDir: "/job"}, head,
			Prediction{Program: "deepspeed", Hosts: two, Launcher: "pdsh", Rendezvous: "deepspeed", MasterAddr: "10.0.0.1", MasterPort: 4000, SSHPort: 2222, Accelerator: "cuda", WorkDir: "/job",
				Interpreter: "/usr/bin/python3", InterpreterFrom: "/usr/bin/deepspeed", Exports: exports, EnvFile: "/job/.deepspeed_env"}, []string{"zero-slots", "export-reread"}},
		{"one host is no launch over ssh", Options{Hosts: one, WorkDir: "/job", Interpreter: "/py", Accelerator: "cpu"}, head,
			Prediction{Program: "deepspeed", Hosts: one, Launcher: "pdsh", Rendezvous: "deepspeed", Local: true, MasterPort: 29500, Accelerator: "cpu", WorkDir: "/job", Interpreter: "/py", InterpreterFrom: "--python"}, []string{"single-host-runs-here"}},
		{"unless it is forced", Options{Hosts: one, WorkDir: "/job", Filter: hostfile.Filter{ForceMulti: true}}, nil,
			Prediction{Program: "deepspeed", Hosts: one, Launcher: "pdsh", Rendezvous: "deepspeed", MasterPort: 29500, Accelerator: "cuda", AcceleratorAssumed: true, WorkDir: "/job", Exports: exports[2:]}, nil},
	} {
		got, err := Predict(c.o, c.head)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.traps, traps(got.Notes)); diff != "" {
			t.Errorf("%s: notes (-want +got)\n%s", c.name, diff)
		}
		got.Notes, got.CommandEnv, got.Timeout, got.TimeoutFrom = nil, nil, 0, "" // other tests check these fields
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestPredictLeavesOptionsAlone(t *testing.T) {
	notes := append(make([]hostfile.Note, 0, 9), hostfile.Note{ID: "zero-slots"})
	if _, err := Predict(Options{Hosts: hosts(1, 2), Notes: notes, Launcher: "openmpi"}, nil); err != nil {
		t.Fatal(err)
	}
	if spare := notes[:2][1]; spare != (hostfile.Note{}) {
		t.Errorf("the caller's slice was written to: %+v", spare)
	}
}

// TestPredictKeepsWhatConcernsTheLaunch: a note about a line of the hostfile is left out if it
// concerns a launcher that this launch does not use.
func TestPredictKeepsWhatConcernsTheLaunch(t *testing.T) {
	noted := []hostfile.Note{{ID: "pdsh-range"}, {ID: "comment-in-name"}}
	for _, c := range []struct {
		name string
		o    Options
		want []string
	}{
		{"pdsh", Options{Hosts: hosts(1, 1)}, []string{"pdsh-range", "comment-in-name"}},
		{"another launcher", Options{Hosts: hosts(1, 1), Launcher: "impi"}, []string{"comment-in-name"}},
		{"this machine", Options{Hosts: hosts(1)}, []string{"comment-in-name", "single-host-runs-here"}},
		{"by hand", Options{Hosts: hosts(1), NoSSH: true, MasterAddr: "w1"}, []string{"comment-in-name"}},
		{"torchrun", Options{Hosts: hosts(1), Rendezvous: RendezvousC10d}, []string{"comment-in-name"}},
	} {
		c.o.Notes = noted
		p, err := Predict(c.o, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, traps(p.Notes)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestPredictByHand(t *testing.T) {
	p, err := Predict(Options{Hosts: hosts(2, 2), NoSSH: true, NodeRank: 1, MasterAddr: "10.0.0.1", Launcher: "openmpi"},
		&facts.Node{Facts: facts.Facts{Env: &facts.Env{Vars: launchtest.Env("environment", "NCCL_DEBUG=INFO")}}})
	if err != nil || p.Local || !p.NoSSH || p.Launcher != "" || p.Exports != nil || len(p.Hosts) != 2 {
		t.Errorf("%+v, %v: want both hosts, no launcher and no exports", p, err)
	}
}

func TestPredictReadsTheConfiguration(t *testing.T) {
	p, err := Predict(Options{Hosts: hosts(2, 2), Config: &dsconfig.File{Path: "/job/ds.json", JSON: "{}"}}, nil)
	if want := dsconfig.Read(dsconfig.File{Path: "/job/ds.json", JSON: "{}"}, "", 4); err != nil || !cmp.Equal(want, p.Config) {
		t.Errorf("%v, %v; want it read for four ranks", p.Config, err)
	}
}

// TestPredictTorchrun: torchrun needs no launcher and exports nothing, with any rendezvous backend.
func TestPredictTorchrun(t *testing.T) {
	head := &facts.Node{Facts: facts.Facts{Env: &facts.Env{Vars: launchtest.Env("environment", "NCCL_DEBUG=INFO")},
		Launcher: &facts.Launcher{DeepSpeed: "/usr/bin/deepspeed", Interpreter: "/usr/bin/python3"}}}
	for _, backend := range []string{RendezvousStatic, RendezvousC10d, "etcd", "etcd-v2", "mine"} {
		p, err := Predict(Options{Program: ProgramTorchrun, Hosts: hosts(2, 2), Rendezvous: backend, RdzvEndpoint: "e:2379", MinNodes: 2, MaxNodes: 2, PerNode: "3", Script: "train.py"}, head)
		if err != nil || !p.Torchrun() || p.Launcher != "" || p.Command != nil || p.Exports != nil || p.Timeout != 0 || p.WorldSize() != 6 {
			t.Errorf("%s: %d ranks by %q, %v, exports %v, %v", backend, p.WorldSize(), p.Launcher, p.Command, p.Exports, err)
		}
		if p.HasExternalRendezvous() != (backend != RendezvousStatic && backend != RendezvousC10d) {
			t.Errorf("%s: meets elsewhere %v", backend, p.HasExternalRendezvous())
		}
	}
}

// TestLeftOut: a host that a filter leaves out is still part of the hostfile.
func TestLeftOut(t *testing.T) {
	all := hosts(2, 2, 2)
	for _, c := range []struct {
		file string
		want []string
	}{{"hosts", []string{all[0].Name, all[2].Name}}, {"", nil}} {
		p, err := Predict(Options{Hosts: all, HostsFile: c.file, Filter: hostfile.Filter{Include: all[1].Name}, Launcher: "pdsh"}, nil)
		if err != nil || !slices.Equal(p.Excluded, c.want) {
			t.Errorf("hostfile %q: %q (%v), want %q", c.file, p.Excluded, err, c.want)
		}
	}
}

func TestImportedBy(t *testing.T) {
	for module, want := range map[string]Imported{"torch": ByTorch, "types": ByTorch, "numpy": ByTorch, "deepspeed": ByDeepSpeed, "psutil": ByDeepSpeed, "calendar": NotImported, "utils": NotImported} {
		if got := ImportedBy(module); got != want {
			t.Errorf("%s: %d, want %d", module, got, want)
		}
	}
	all := Modules([]string{"calendar", "torch"})
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) || !slices.Contains(all, "calendar") {
		t.Errorf("%v", all)
	}
}
