// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
)

func TestTraps(t *testing.T) {
	args := func(text string) func(*Options) { return func(o *Options) { o.LauncherArgs = text } }
	script := func(words ...string) func(*Options) { return func(o *Options) { o.Arguments = words } }
	filtered := func(o *Options) { o.Filter.Include = "w1:0@w2:0" }
	limited := func(o *Options) { o.Filter.NumGPUs = hostfile.AtMost(1) }
	noAddress := func(o *Options) { o.MasterAddr = "" }
	for _, c := range []struct {
		name, release, launcher string
		change                  func(*Options)
		want                    []string
		says                    string // text that the last note contains
	}{
		{"none", "", "pdsh", nil, nil, ""},
		{"autotuning", "", "pdsh", func(o *Options) { o.Autotuning = "tune" }, []string{"autotuning"}, "one per experiment"},
		{"no port", "", "pdsh", func(o *Options) { o.MasterPort = 65536 }, []string{"master-port-range"}, "65536 is not a port"},
		{"the last port", "", "pdsh", func(o *Options) { o.MasterPort = 65535 }, nil, ""},
		{"by hand, asks w1", "", "", func(o *Options) { o.NoSSH, o.NodeRank, o.MasterAddr = true, 0, "" }, []string{"no-ssh-asks-ssh"}, "asks w1"},

		{"arguments that a shell reads", "", "pdsh", script("$HOME", "ok", "a b"), []string{"argument-reread"}, `"$HOME" of the script's`},
		{"an argument that is lost", "", "pdsh", script(""), []string{"argument-reread"}, `"" of the script's`},
		{"rank marks", "", "pdsh", script("--fmt=%n"), []string{"argument-reread"}, "double each % before n, h, u and %"},
		{"a blank behind a hyphen before 0.12.5", "0.9.5", "pdsh", script("--k=a b", "a b"), []string{"argument-reread"}, `"--k=a b" of`},
		{"no shell reads them", "", "mpich", script("$HOME", ""), nil, ""},
		{"nor here", "", "pdsh", func(o *Options) { script("$HOME")(o); o.Hosts = o.Hosts[:1] }, []string{"single-host-runs-here"}, ""},
		{"split again", "0.10.1", "mpich", script("a b"), []string{"argument-split"}, `gets ["a" "b"]`},
		{"split again and the same", "0.10.1", "mpich", script("a"), nil, ""},
		{"a script with a blank", "", "pdsh", func(o *Options) { o.Script = "my train.py" }, []string{"script-reread"}, "my train.py"},
		{"a directory with a blank", "", "pdsh", func(o *Options) { o.WorkDir = "/a b" }, []string{"workdir-reread"}, "home directory"},
		{"an interpreter with a blank", "", "pdsh", func(o *Options) { o.Interpreter = "/a b/python" }, []string{"interpreter-reread"}, "/a b/python"},

		{"not handed on by pdsh", "", "pdsh", func(o *Options) {
			o.BindCores, o.CoreList, o.Quiet, o.LogLevel, o.EachRankLog = true, "0", true, "debug", "logs"
		},
			[]string{"option-not-forwarded"}, "--bind_cores_to_rank, --bind_core_list, --quiet, --log_level on"},
		{"logs of ranks", "0.16.2", "pdsh", func(o *Options) { o.EachRankLog = "logs" }, nil, ""},
		{"logs of ranks, MPI", "", "mpich", func(o *Options) { o.EachRankLog, o.Elastic = "logs", true }, []string{"option-not-forwarded"}, "--enable_each_rank_log, --elastic_training on"},
		{"elastic", "0.19.7", "pdsh", func(o *Options) { o.Elastic = true }, nil, ""},
		{"logs of ranks before 0.16.2", "0.16.1", "pdsh", func(o *Options) { o.EachRankLog = "logs" }, []string{"option-not-forwarded"}, "--enable_each_rank_log on"},
		{"what says nothing", "", "pdsh", func(o *Options) { o.EachRankLog, o.LogLevel = "None", "info" }, nil, ""},
		{"not handed on by MPI", "", "mpich", func(o *Options) { o.SSHPort, o.VenvScript, o.SavePID = 22, "/v", true }, []string{"option-not-forwarded"}, "--ssh_port, --venv_script, --save_pid on"},
		{"bound to cores by impi", "", "impi", func(o *Options) { o.BindCores, o.CoreList = true, "0-3" }, nil, ""},
		{"not handed on by srun", "", "slurm", func(o *Options) { noAddress(o); o.NoPython = true }, []string{"option-not-forwarded", "hostfile-ignored"}, ""},
		{"launcher_args before 0.8.1", "0.8.0", "pdsh", args("-w w9"), []string{"option-not-forwarded"}, "--launcher_args on"},
		{"all of it handed on", "", "", func(o *Options) { o.Hosts, o.BindCores, o.Quiet = o.Hosts[:1], true, true }, []string{"single-host-runs-here"}, ""},

		{"hosts more", "", "pdsh", args("-l me -w w9"), []string{"launcher-args-hosts"}, "adds hosts"},
		{"hosts less", "", "pdsh", args("-xw1"), []string{"launcher-args-hosts"}, "leaves hosts out"},
		{"module other than ssh", "", "pdsh", args("-Rexec"), []string{"launcher-args-module"}, "module other than ssh"},
		{"a fan-out", "", "pdsh", args("-f 8"), []string{"launcher-args-fanout"}, "1024"},
		{"a time", "", "pdsh", args("-u 60"), []string{"launcher-args-timeout"}, "ends the training"},
		{"of another launcher", "", "mpich", args("-f 8"), nil, ""},
		{"an environment not read yet", "0.17.0", "pdsh", func(o *Options) { o.VenvScript = "/v" }, nil, ""},
		{"an environment still unended", "0.17.4", "pdsh", func(o *Options) { o.VenvScript = "/v" }, []string{"venv-script-unended"}, "--venv_script '/v;'"},
		{"an environment unended", "0.17.1", "pdsh", func(o *Options) { o.VenvScript = "/v" }, []string{"venv-script-unended"}, "of PYTHONPATH that follows becomes an argument"},
		{"an environment ended", "0.17.5", "pdsh", func(o *Options) { o.VenvScript = "/v" }, nil, ""},
		{"a port, nobody looked", "0.14.0", "pdsh", func(o *Options) { o.SSHPort = 22 }, []string{"ssh-port-append"}, "KeyError"},

		{"address ignored", "", "mvapich", nil, []string{"master-addr-ignored"}, "not 10.0.0.1"},
		{"eth0", "", "openmpi", noAddress, []string{"openmpi-eth0"}, "--launcher_args '--mca"},
		{"eth0, the first that can be helped", "0.15.3", "openmpi", noAddress, []string{"openmpi-eth0"}, "--launcher_args '--mca"},
		{"eth0 for good", "0.15.2", "openmpi", noAddress, []string{"openmpi-eth0"}, "use DeepSpeed 0.15.3"},
		{"another interface", "", "openmpi", func(o *Options) { noAddress(o); args("--mca btl_tcp_if_include 10.0.0.0/8")(o) }, nil, ""},
		{"openmpi before it needed MPI", "0.16.3", "openmpi", noAddress, []string{"openmpi-eth0"}, ""},
		{"openmpi, the first that needs MPI", "0.16.4", "openmpi", noAddress, []string{"openmpi-needs-mpi", "openmpi-eth0"}, ""},
		{"openmpi, nobody looked", "0.18.3", "openmpi", noAddress, []string{"openmpi-needs-mpi", "openmpi-eth0"}, ""},
		{"openmpi mended", "0.18.4", "openmpi", noAddress, []string{"openmpi-eth0"}, ""},
		{"exports no longer forgotten", "0.9.2", "mpich", nil, nil, ""},
		{"exports forgotten", "0.9.1", "mpich", nil, []string{"exports-forgotten"}, "passes no variables on"},
		{"srun chooses", "", "slurm", noAddress, []string{"hostfile-ignored"}, "srun chooses"},
		{"hosts are named to srun", "", "slurm", func(o *Options) { noAddress(o); filtered(o) }, nil, ""},
		{"hosts are named since 0.19.7", "0.19.7", "slurm", func(o *Options) { noAddress(o); filtered(o) }, nil, ""},
		{"the filter is", "0.19.6", "slurm", func(o *Options) { noAddress(o); filtered(o) }, []string{"slurm-filter"}, `"w1:0@w2:0"`},
		{"a limit is not", "", "slurm", func(o *Options) { noAddress(o); limited(o) }, []string{"hostfile-ignored"}, "srun chooses"},
		{"a limit of all slots", "0.19.6", "slurm", func(o *Options) { noAddress(o); limited(o) }, []string{"slurm-filter"}, "for all 4 slots"},
	} {
		o := job(c.launcher, c.change)
		o.DeepSpeed = c.release
		p, err := Predict(o, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		notes := slices.DeleteFunc(p.Notes, func(note hostfile.Note) bool { return strings.HasPrefix(note.ID, "export-") })
		if diff := cmp.Diff(c.want, traps(notes)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
			continue
		}
		if len(notes) > 0 && !strings.Contains(notes[len(notes)-1].Message, c.says) {
			t.Errorf("%s: %q does not say %q", c.name, notes[len(notes)-1].Message, c.says)
		}
	}
}

// TestTrapsOfAnUnseenMachine: a note that depends on the environment is left out if the environment
// was seen and shows no problem. A launching machine without facts still gives a command.
func TestTrapsOfAnUnseenMachine(t *testing.T) {
	o := job("pdsh", func(o *Options) { o.DeepSpeed, o.SSHPort = "0.14.0", 22 })
	p, err := Predict(o, seen("PDSH_SSH_ARGS_APPEND=-v"))
	if err != nil || traps(p.Notes) != nil {
		t.Errorf("%v, %v: want no note", traps(p.Notes), err)
	}
	for _, c := range []struct {
		nodes, include string
		want           []string
	}{{"1", "", nil}, {"4", "", []string{"local-in-slurm-job"}}, {"4", "localhost:0", nil}} {
		o = job("slurm", func(o *Options) {
			o.HostsFile, o.Hosts = "", []hostfile.Host{{Name: "localhost", Slots: hostfile.FirstSlots(2)}}
			o.Filter.Include = c.include
		})
		if p, err = Predict(o, seen("SLURM_JOB_NUM_NODES="+c.nodes)); err != nil || !slices.Equal(traps(p.Notes), c.want) {
			t.Errorf("a job of %s nodes, --include %q: %v, %v: want %v", c.nodes, c.include, traps(p.Notes), err, c.want)
		}
	}
	o = job("pdsh", nil)
	if p, err = Predict(o, &facts.Node{}); err != nil || p.Command == nil {
		t.Errorf("%v, %v: want a command", p.Command, err)
	}
}
