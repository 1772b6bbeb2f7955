// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/testhosts/launchtest"
)

// job returns a complete command for two hosts.
func job(by string, change func(*Options)) Options {
	o := Options{Hosts: hosts(2, 2), HostsFile: "hosts", Launcher: by, MasterAddr: "10.0.0.1", WorkDir: "/job", Interpreter: "/py",
		Script: "train.py", Arguments: []string{"--lr", "1"}, NodeRank: -1, MinElastic: -1, MaxElastic: -1}
	if change != nil {
		change(&o)
	}
	return o
}

// seen returns a launching machine with the given environment.
func seen(pairs ...string) *facts.Node {
	return &facts.Node{Facts: facts.Facts{Env: &facts.Env{Vars: launchtest.Env("environment", pairs...)}}}
}

// commandOf returns the words of a predicted command, separated by bars.
func commandOf(t *testing.T, o Options, head *facts.Node) string {
	t.Helper()
	p, err := Predict(o, head)
	if err != nil {
		t.Errorf("%s %q: %v", o.Launcher, o.DeepSpeed, err)
	}
	return strings.Join(p.Command, " | ")
}

// commandCase is the command that a release builds. Each command was also built by the real
// runner.py and multinode_runner.py of that release.
type commandCase struct {
	name, release, launcher string
	change                  func(*Options)
	want                    string
}

func testCommands(t *testing.T, cases []commandCase) {
	t.Helper()
	for _, c := range cases {
		o := job(c.launcher, c.change)
		o.DeepSpeed = c.release
		if diff := cmp.Diff(c.want, commandOf(t, o, seen("NCCL_DEBUG=INFO"))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// twoHosts encodes {"w1": [0, 1], "w2": [0, 1]}, and oneHost encodes {"w1": [0, 1]}.
const (
	twoHosts = "eyJ3MSI6IFswLCAxXSwgIncyIjogWzAsIDFdfQ=="
	oneHost  = "eyJ3MSI6IFswLCAxXX0="
)

func TestLocalCommand(t *testing.T) {
	alone := func(o *Options) { o.Hosts = o.Hosts[:1] }
	everything := func(o *Options) {
		alone(o)
		o.MasterPort, o.NoPython, o.NoLocalRank, o.SavePID, o.EachRankLog = 4000, true, true, true, "logs"
		o.Elastic, o.NoLocalRank, o.MaxElastic = true, false, 3
		o.BindCores, o.CoreList, o.Quiet, o.LogLevel = true, "0-3", true, "debug"
	}
	const start = "/py | -u | -m | deepspeed.launcher.launch | --world_info=" + oneHost + " | --master_addr=10.0.0.1 | --master_port="
	testCommands(t, []commandCase{
		{"newest", "", "", alone, start + "29500 | --enable_each_rank_log=None | --log_level=info | train.py | --lr | 1"},
		{"no logs yet", "0.7.7", "", alone, start + "29500 | train.py | --lr | 1"},
		{"the first logs", "0.8.0", "", alone, start + "29500 | --enable_each_rank_log=None | train.py | --lr | 1"},
		{"the first level", "0.17.6", "", alone, start + "29500 | --enable_each_rank_log=None | --log_level=info | train.py | --lr | 1"},
		{"no level yet", "0.17.5", "impi", alone, start + "29500 | --enable_each_rank_log=None | train.py | --lr | 1"},
		{"all options", "0.19.7", "", everything, start + "4000 | --no_python | --save_pid | $PID | --enable_each_rank_log=logs | " +
			"--enable_elastic_training | --max_elastic_nodes=3 | --min_elastic_nodes=-1 | --bind_cores_to_rank | --bind_core_list=0-3 | --quiet | --log_level=error | train.py | --lr | 1"},
		{"an address to come", "0.15.1", "", func(o *Options) { alone(o); o.MasterAddr, o.Module = "", true },
			strings.Replace(start, "10.0.0.1", "$MASTER_ADDR", 1) + "29500 | --module | --enable_each_rank_log=None | train.py | --lr | 1"},
		{"by hand", "0.14.5", "openmpi", func(o *Options) { o.NoSSH, o.NodeRank = true, 1 },
			strings.Replace(start, oneHost, twoHosts, 1) + "29500 | --node_rank=1 | --enable_each_rank_log=None | train.py | --lr | 1"},
		{"arguments split for the last time", "0.10.2", "", func(o *Options) { alone(o); o.Arguments = []string{"a b"} },
			start + "29500 | --enable_each_rank_log=None | train.py | a | b"},
		{"arguments in quotes and split", "0.10.3", "", func(o *Options) { alone(o); o.Arguments = []string{"a b"} },
			start + "29500 | --enable_each_rank_log=None | train.py | a b"},
		{"arguments split again", "0.10.1", "", func(o *Options) { alone(o); o.Arguments = []string{"a b", `'c d'`} },
			start + "29500 | --enable_each_rank_log=None | train.py | a | b | c d"},
	})
}

func TestCommandIsNotKnown(t *testing.T) {
	for name, o := range map[string]Options{
		"no script":         job("pdsh", func(o *Options) { o.Script = "" }),
		"no interpreter":    job("pdsh", func(o *Options) { o.Interpreter = "" }),
		"no slots":          job("pdsh", func(o *Options) { o.Hosts = []hostfile.Host{{Name: "a"}, {Name: "b"}} }),
		"autotuning":        job("pdsh", func(o *Options) { o.Autotuning = "run" }),
		"no hostfile named": job("openmpi", func(o *Options) { o.HostsFile = "" }),
		"bound to cores":    job("impi", func(o *Options) { o.BindCores = true }),
		"torchrun's":        job("", func(o *Options) { o.Rendezvous = RendezvousC10d }),
	} {
		p, err := Predict(o, seen())
		if err != nil || p.Command != nil {
			t.Errorf("%s: %q with %v, %v; want no command", name, p.Command, p.CommandEnv, err)
		}
	}
}

// TestJSONString compares with the results of json.dumps of Python 3.11.
func TestJSONString(t *testing.T) {
	for text, want := range map[string]string{
		"w1":               `"w1"`,
		`a"b\`:             `"a\"b\\"`,
		"\n\r\t\b\f\x01\v": `"\n\r\t\b\f\u0001\u000b"`,
		"\x7fé€😀</&>":      `"\u007f\u00e9\u20ac\ud83d\ude00</&>"`,
	} {
		if got := jsonString(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestWorldInfo: ordinary Base64 writes ">?" as "+/", and URL-safe Base64 does not.
func TestWorldInfo(t *testing.T) {
	got := worldInfo([]hostfile.Host{{Name: "?>?>", Slots: []int{3, 0}}, {Name: "b", Slots: []int{}}})
	if want := "eyI_Pj8-IjogWzMsIDBdLCAiYiI6IFtdfQ=="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
