// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestPDSHCommand(t *testing.T) {
	const (
		launch  = "/py | -u | -m | deepspeed.launcher.launch | --world_info=" + twoHosts + " | --node_rank=%n | --master_addr=10.0.0.1 | --master_port=29500 | "
		exports = "export NCCL_DEBUG=INFO; export PYTHONPATH=/job;  | cd /job; | "
		start   = "pdsh | -S | -f | 1024 | -w | w1,w2 | "
		end     = "train.py | --lr | 1"
		older   = "train.py | --lr | '1'"
		rankLog = "--enable_each_rank_log=None | "
	)
	activated := func(o *Options) { o.VenvScript, o.LauncherArgs = "/v/bin/activate", "-l 'me too'" }
	words := func(o *Options) { o.Arguments = []string{"a b", `say "x y"`, "--k=v w", "-x", `{"a":1}`, ""} }
	testCommands(t, []commandCase{
		{"newest", "", "", nil, start + exports + launch + rankLog + end},
		{"an exit code", "0.6.6", "pdsh", nil, start + exports + launch + older},
		{"no exit code yet", "0.6.5", "pdsh", nil, "pdsh | -f | 1024 | -w | w1,w2 | " + exports + launch + older},
		{"no logs yet", "0.15.1", "pdsh", nil, start + exports + launch + end},
		{"logs", "0.16.2", "pdsh", nil, start + `export NCCL_DEBUG="INFO"; export PYTHONPATH="/job";  | cd /job; | ` + launch + rankLog + end},
		{"the last without logs", "0.16.1", "pdsh", nil, start + `export NCCL_DEBUG="INFO"; export PYTHONPATH="/job";  | cd /job; | ` + launch + end},
		{"always quoted", "0.15.2", "pdsh", nil, start + `export NCCL_DEBUG="INFO"; export PYTHONPATH="/job";  | cd /job; | ` + launch + end},
		{"quoted where needed", "", "pdsh", func(o *Options) { o.WorkDir = "/a b" }, start + `export NCCL_DEBUG=INFO; export PYTHONPATH="/a b";  | cd /a b; | ` + launch + rankLog + end},
		{"all options", "0.19.7", "PDSH", func(o *Options) {
			o.NoPython, o.SavePID, o.EachRankLog, o.Elastic, o.MinElastic, o.MaxElastic = true, true, "logs", true, 1, 2
			o.BindCores, o.Quiet, o.CoreList = true, true, "0-3"
		}, start + exports + launch + "--no_python | --save_pid | $PID | --enable_each_rank_log=logs | --enable_elastic_training | --max_elastic_nodes=2 | --min_elastic_nodes=1 | " + end},
		{"its arguments and an environment", "", "pdsh", activated, start + "-l | me too | source /v/bin/activate; | " + exports + launch + rankLog + end},
		{"its first", "0.17.1", "pdsh", func(o *Options) { o.VenvScript = "/v" }, start + "source /v | " + exports + launch + rankLog + end},
		{"none before", "0.17.0", "pdsh", func(o *Options) { o.VenvScript = "/v" }, start + exports + launch + rankLog + end},
		{"unended", "0.17.4", "pdsh", activated, start + "-l | me too | source /v/bin/activate | " + exports + launch + rankLog + end},
		{"its arguments forgotten", "0.8.0", "pdsh", func(o *Options) { o.LauncherArgs = "'unclosed" }, start + exports + launch + older},
		{"words with blanks", "0.12.5", "pdsh", words, start + exports + launch + `train.py | "a b" | "say \"x y\"" | "--k=v w" | -x | {"a":1} | `},
		{"in single quotes", "0.10.0", "pdsh", words, start + exports + launch + `train.py | 'a b' | 'say "x y"' | --k=v w | -x | '{"a":1}' | ''`},
		{"split again", "0.10.3", "pdsh", words, start + exports + launch + `train.py | 'a b' | 'say "x y"' | --k=v | 'w' | -x | '{"a":1}' | ''`},
		{"forced to one", "", "pdsh", func(o *Options) { o.Hosts, o.Filter.ForceMulti = o.Hosts[:1], true },
			strings.Replace(start, "w1,w2", "w1", 1) + exports + strings.Replace(launch, twoHosts, oneHost, 1) + rankLog + end},
	})
}

// TestPDSHCommandExports: the exports are in the order in which they first appear.
func TestPDSHCommandExports(t *testing.T) {
	head := seen("A=0", "NCCL_DEBUG=INFO", "PYTHONPATH=/lib", "UCX_TLS=rc")
	head.Env.Withheld = []string{"MLFLOW_TRACKING_TOKEN"}
	head.Launcher = &facts.Launcher{EnvFiles: []facts.EnvFile{{Path: "/job/.deepspeed_env", Lines: []string{" NCCL_DEBUG = WARN ", "# X=1", "no assignment", "export B=$HOME x"}}}}
	p, err := Predict(job("pdsh", nil), head)
	if err != nil {
		t.Fatal(err)
	}
	want := `export MLFLOW_TRACKING_TOKEN=…; export NCCL_DEBUG=WARN; export PYTHONPATH=/job:/lib; export UCX_TLS=rc; export # X=1; export export B="$HOME x"; `
	if diff := cmp.Diff(want, p.Command[6]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"B=$HOME x", "MLFLOW_TRACKING_TOKEN=…", "NCCL_DEBUG=WARN", "PYTHONPATH=/job:/lib", "UCX_TLS=rc"}, shown(p.Exports)); diff != "" {
		t.Errorf("what arrives: (-want +got)\n%s", diff)
	}
}

// TestCommandEnv: the spaces come from a continued line in the source of v0.14.1 and later.
func TestCommandEnv(t *testing.T) {
	const path, ssh = "PYTHONPATH=/job", "PDSH_RCMD_TYPE=ssh"
	appended := "PDSH_SSH_ARGS_APPEND="
	for _, c := range []struct {
		release, launcher string
		port              int
		head              *facts.Node
		want              []string
	}{
		{"", "pdsh", 0, seen(), []string{path, ssh}},
		{"", "pdsh", 0, nil, []string{path, ssh}},
		{"", "pdsh", 0, seen("PYTHONPATH="), []string{path + ":", ssh}},
		{"", "pdsh", 22, seen(), []string{path, ssh, appended + "             -p 22"}},
		{"0.14.1", "pdsh", 22, seen(appended + "-v"), []string{path, ssh, appended + "-v             -p 22"}},
		{"0.14.0", "pdsh", 22, seen(appended + "-v"), []string{path, ssh, appended + "-v -p 22"}},
		{"0.11.0", "pdsh", 22, seen(appended), []string{path, ssh, appended + " -p 22"}},
		{"0.10.2", "pdsh", 22, seen(appended + "-v"), []string{path, ssh, appended + " -p 22"}},
		{"", "openmpi", 22, seen(), []string{path}},
	} {
		o := job(c.launcher, func(o *Options) { o.DeepSpeed, o.SSHPort = c.release, c.port })
		p, err := Predict(o, c.head)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if diff := cmp.Diff(c.want, shown(p.CommandEnv)); diff != "" {
			t.Errorf("%q %s %d: (-want +got)\n%s", c.release, c.launcher, c.port, diff)
		}
	}
	if p, _ := Predict(job("pdsh", func(o *Options) { o.Hosts = o.Hosts[:1] }), seen()); p.CommandEnv != nil {
		t.Errorf("%v for ranks that start here: want nothing", p.CommandEnv)
	}
}
