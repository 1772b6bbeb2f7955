// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
)

// withLauncher adds a row to the table for one test.
func withLauncher(t *testing.T, row Launcher) {
	before := Launchers
	t.Cleanup(func() { Launchers = before })
	Launchers = append(slices.Clone(before), row)
}

// TestMadeUpLauncher: a new launcher needs only a row in the table.
func TestMadeUpLauncher(t *testing.T) {
	withLauncher(t, Launcher{
		Name: "armada", since: "0.16.0", Programs: []string{"armadactl", "armada"},
		MPIDiscovery: true, Environment: EnvironmentExported, exportsSince: "0.17.0",
		presets:   func(exporter) []string { return []string{"ARMADA=1"} },
		overrides: func(exporter) []string { return []string{"ARMADA_PIN=0"} },
		evenName:  "Armada", argsSince: "0.18.0", forwards: []string{"--module"},
		command:     func(r runner) []string { return append([]string{"armada", "-n", r.total()}, r.scriptCommand()...) },
		environment: func(runner) []facts.Setting { return []facts.Setting{{Name: "ARMADA_LOG", Value: "x"}} },
		notes:       func(runner) []hostfile.Note { return []hostfile.Note{{ID: "armada-sinks"}} },
	})
	if names := LauncherNames(); names[0] != DefaultLauncher || !slices.Contains(names, "armada") {
		t.Errorf("names %q", names)
	}
	if programs := LauncherPrograms(); !slices.Contains(programs, "armadactl") || slices.Contains(programs, "pdsh") || !slices.IsSorted(programs) {
		t.Errorf("programs %q", programs)
	}
	o := Options{Hosts: hosts(2, 2), Launcher: "Armada", WorkDir: "/job", Interpreter: "/py", Script: "train.py", MasterAddr: "10.0.0.1",
		LauncherArgs: "-x", Module: true, NoPython: false, SavePID: true, Notes: []hostfile.Note{{ID: "pdsh-range"}}}
	p, err := Predict(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{p.StartedBy().Program(), strings.Join(p.Command, " "), p.EndpointHost()}
	for _, s := range slices.Concat(p.Exports, p.CommandEnv) {
		got = append(got, s.Name+"="+s.Value)
	}
	want := []string{"armada", "armada -n 4 /py -u -m train.py", "", "ARMADA=1", "ARMADA_PIN=0", "PYTHONPATH=/job", "PYTHONPATH=/job", "ARMADA_LOG=x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"option-not-forwarded", "master-addr-ignored", "armada-sinks"}, traps(p.Notes)); diff != "" {
		t.Errorf("traps (-want +got)\n%s", diff)
	}
	if !strings.Contains(p.Notes[0].Message, "pass --save_pid on") {
		t.Errorf("%q: --module goes on, --save_pid does not", p.Notes[0].Message)
	}
	for release, want := range map[string]string{"0.15.9": "NotImplementedError: Unknown launcher armada", "0.19.8": "ValueError: Armada requires same number of devices per node"} {
		uneven := o
		uneven.Hosts, uneven.DeepSpeed = hosts(1, 2), release
		_, err := Predict(uneven, nil)
		if refused, ok := errors.AsType[*UsageError](err); !ok || refused.Original != want {
			t.Errorf("DeepSpeed %s: %v, want %s", release, err, want)
		}
	}
	o.DeepSpeed = "0.16.5"
	if p, err := Predict(o, nil); err != nil || len(p.Exports) != 1 || p.Exports[0].Name != "ARMADA_PIN" || !strings.Contains(p.Notes[0].Message, "--launcher_args") {
		t.Errorf("an older release: %v, %+v", err, p)
	}
}

// TestLaunchers: every launcher has a program and the other fields that it needs, and the first
// launcher is the default.
func TestLaunchers(t *testing.T) {
	for _, l := range Launchers {
		if len(l.Programs) == 0 || l.command == nil || l.NoWorkDir == "" || l.argsSince == "" || strings.ToLower(l.Name) != l.Name {
			t.Errorf("%s lacks something", l.Name)
		}
	}
	if Launchers[0].Name != DefaultLauncher {
		t.Error("the first is the default")
	}
}

// TestWithoutSSH checks which machines need an ssh login, inside a Slurm job and outside.
func TestWithoutSSH(t *testing.T) {
	job := &facts.Node{Facts: facts.Facts{Env: &facts.Env{Vars: []facts.Setting{{Name: "SLURM_JOB_ID", Value: "7"}}}}}
	none := &facts.Node{Facts: facts.Facts{Env: &facts.Env{}}}
	typed := Options{HostsFile: "hostfile", Script: "train.py", Interpreter: "/py", WorkDir: "/job"}
	for name, c := range map[string]struct {
		head  *facts.Node
		with  func(*Options)
		first string // the reason on the first host
		other string
	}{
		"pdsh":             {job, func(*Options) {}, "", ""},
		"srun":             {none, func(o *Options) { o.Launcher, o.Script = "slurm", "" }, "srun starts ranks without ssh", "srun starts ranks without ssh"},
		"srun, a command":  {none, func(o *Options) { o.Launcher = "slurm" }, "", "srun starts ranks without ssh"},
		"srun, unasked":    {none, func(o *Options) { o.Launcher, o.NoSSHCheck, o.MasterAddr = "slurm", true, "10.0.0.1" }, "srun starts ranks without ssh", "srun starts ranks without ssh"},
		"srun, an address": {none, func(o *Options) { o.Launcher, o.MasterAddr = "slurm", "10.0.0.1" }, "", "srun starts ranks without ssh"},
		"mpirun":           {none, func(o *Options) { o.Launcher, o.Script = "openmpi", "" }, "", ""},
		"mpirun in a job":  {job, func(o *Options) { o.Launcher, o.Script = "openmpi", "" }, "mpirun starts ranks with srun in a Slurm job", "mpirun starts ranks with srun in a Slurm job"},
		"torchrun":         {none, func(o *Options) { o.Rendezvous, o.RdzvEndpoint = RendezvousC10d, "w1" }, "the command is started on every node", "the command is started on every node"},
	} {
		t.Run(name, func(t *testing.T) {
			o := typed
			o.Hosts = hosts(2, 2)
			c.with(&o)
			p, err := Predict(o, c.head)
			if err != nil {
				t.Fatal(err)
			}
			first, other := p.WithoutSSH(p.Hosts[0].Name), p.WithoutSSH(p.Hosts[1].Name)
			if first != c.first || other != c.other {
				t.Errorf("first host: %q, want %q; another: %q, want %q", first, c.first, other, c.other)
			}
			if by := p.StartedBy(); by.SSH != (c.other == "") {
				t.Errorf("%+v", by)
			}
		})
	}
}
