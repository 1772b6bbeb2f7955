// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"preflight/hostfile"
	"preflight/launch"
)

// deepSpeedCommands lists the results of the real parse_args of these releases under CPython 3.11,
// where "" is 0.19.8. A result is the options whose values differ from their defaults, then the
// script and its arguments, or the last line of the refusal.
var deepSpeedCommands = []struct{ release, words, want string }{
	{"", `train.py`, `| train.py`},
	{"", `-H hostfile train.py --deepspeed ds.json`, `hostfile=hostfile | train.py <--deepspeed> <ds.json>`},
	{"", `-Hhostfile train.py`, `hostfile=hostfile | train.py`},
	{"", `--hostfile=hostfile train.py`, `hostfile=hostfile | train.py`},
	{"", `-H=hostfile train.py`, `hostfile=hostfile | train.py`},
	{"", `--host hostfile train.py`, `hostfile=hostfile | train.py`},
	{"", `--inc w1 train.py`, `include=w1 | train.py`},
	{"", `--num_n 2 train.py`, `num_nodes=2 | train.py`},
	{"", `--num 2 train.py`, `deepspeed: error: ambiguous option: --num could match --num_nodes, --num_gpus, --num_accelerators`},
	{"", `--no_p train.py`, `no_python=True | train.py`},
	{"", `--no_s train.py`, `deepspeed: error: ambiguous option: --no_s could match --no_ssh, --no_ssh_check`},
	{"", `--no_ssh train.py`, `no_ssh=True | train.py`},
	{"", `--num-gpus 2 train.py`, `deepspeed: error: unrecognized arguments: --num-gpus`},
	{"", `--num-gpus=2 train.py`, `deepspeed: error: unrecognized arguments: --num-gpus=2`},
	{"", `--num_gpus 2 train.py`, `num_gpus=2 | train.py`},
	{"", `--num_accelerators 2 train.py`, `num_gpus=2 | train.py`},
	{"", `--num_gpus=-1 train.py`, `| train.py`},
	{"", `--num_gpus -1 train.py`, `| train.py`},
	{"", `--num_gpus ' 1_0 ' train.py`, `num_gpus=10 | train.py`},
	{"", `--num_gpus 2.0 train.py`, `deepspeed: error: argument --num_gpus/--num_accelerators: invalid int value: '2.0'`},
	{"", `--launcher_args -x train.py`, `deepspeed: error: argument --launcher_args: expected one argument`},
	{"", `--launcher_args '-x -y' train.py`, `launcher_args=-x -y | train.py`},
	{"", `--launcher_args=-x train.py`, `launcher_args=-x | train.py`},
	{"", `--launcher_args -1 train.py`, `launcher_args=-1 | train.py`},
	{"", `train.py --num_gpus 2 -H x -h`, `| train.py <--num_gpus> <2> <-H> <x> <-h>`},
	{"", `train.py --num 2`, `deepspeed: error: ambiguous option: --num could match --num_nodes, --num_gpus, --num_accelerators`},
	{"", `train.py -Hx --hostfile`, `| train.py <-Hx> <--hostfile>`},
	{"", `train.py -- --x --`, `| train.py <--x> <-->`},
	{"", `-- train.py --x`, `| train.py <--x>`},
	{"", `-- train.py -- --x`, `| train.py <--> <--x>`},
	{"", `-- --x`, `| --x`},
	{"", `--module -- pkg.mod`, `module=True | pkg.mod`},
	{"", `--hostfile -- train.py`, `deepspeed: error: argument -H/--hostfile: expected one argument`},
	{"", ``, `deepspeed: error: the following arguments are required: user_script, user_args`},
	{"", `--module`, `deepspeed: error: the following arguments are required: user_script, user_args`},
	{"", `--`, `deepspeed: error: the following arguments are required: user_script, user_args`},
	{"", `--hostfile train.py`, `deepspeed: error: the following arguments are required: user_script, user_args`},
	{"", `--hostfile`, `deepspeed: error: argument -H/--hostfile: expected one argument`},
	{"", `-qH hostfile train.py`, `hostfile=hostfile quiet=True | train.py`},
	{"", `-qHhostfile train.py`, `hostfile=hostfile quiet=True | train.py`},
	{"", `-qi=w1 train.py`, `include==w1 quiet=True | train.py`},
	{"", `-qx train.py`, `deepspeed: error: argument -q/--quiet: ignored explicit argument 'x'`},
	{"", `-q= train.py`, `deepspeed: error: argument -q/--quiet: ignored explicit argument ''`},
	{"", `--module=1 train.py`, `deepspeed: error: argument --module: ignored explicit argument '1'`},
	{"", `-h`, `exit 0`},
	{"", `-qh`, `exit 0`},
	{"", `--autotuning walk train.py`, `deepspeed: error: argument --autotuning: invalid choice: 'walk' (choose from 'tune', 'run')`},
	{"", `--autotuning run train.py`, `autotuning=run | train.py`},
	{"", `--log_level loud train.py`, `deepspeed: error: argument --log_level: invalid choice: 'loud' (choose from 'debug', 'info', 'warning', 'error', 'critical')`},
	{"", `- train.py`, `| - <train.py>`},
	{"", `-1 train.py`, `| -1 <train.py>`},
	{"", `-.5 train.py`, `| -.5 <train.py>`},
	{"", `-1e3 train.py`, `deepspeed: error: unrecognized arguments: -1e3`},
	{"", `'- x' train.py`, `| - x <train.py>`},
	{"", `'--a b' train.py`, `| --a b <train.py>`},
	{"", `--= train.py`, `deepspeed: error: ambiguous option: --= could match --help, --hostfile, --include, --exclude, --num_nodes, --num_gpus, --num_accelerators, --master_port, --master_addr, --node_rank, --launcher, --launcher_args, --module, --no_python, --no_local_rank, --no_ssh, --no_ssh_check, --force_multi, --save_pid, --enable_each_rank_log, --autotuning, --bind_cores_to_rank, --bind_core_list, --ssh_port, --venv_script, --log_level, --quiet`},
	{"", `--nope a --nope2 b`, `deepspeed: error: unrecognized arguments: --nope`},
	{"", `--include w1 -i w2 train.py`, `include=w2 | train.py`},
	{"", `--elastic_training train.py`, `deepspeed: error: unrecognized arguments: --elastic_training`},
	{"0.19.7", `--elastic_training --min_el 1 train.py`, `elastic_training=True min_elastic_nodes=1 | train.py`},
	{"0.6.7", `--elastic_training train.py`, `deepspeed: error: unrecognized arguments: --elastic_training`},
	{"0.17.0", `--venv_script a train.py`, `deepspeed: error: unrecognized arguments: --venv_script`},
	{"0.17.1", `--venv a train.py`, `venv_script=a | train.py`},
	{"0.17.5", `-q train.py`, `deepspeed: error: unrecognized arguments: -q`},
	{"0.17.6", `-q train.py`, `quiet=True | train.py`},
	{"0.14.4", `--no_ssh train.py`, `no_ssh_check=True | train.py`},
	{"0.14.5", `--no_ssh --node_rank 1 train.py`, `no_ssh=True node_rank=1 | train.py`},
	{"0.10.1", `--ssh_port 22 train.py`, `deepspeed: error: unrecognized arguments: --ssh_port`},
	{"0.10.2", `--ssh 22 train.py`, `ssh_port=22 | train.py`},
	{"0.9.2", `--num_acc 2 train.py`, `deepspeed: error: unrecognized arguments: --num_acc`},
	{"0.9.3", `--num_acc 2 train.py`, `num_gpus=2 | train.py`},
	{"0.8.3", `--bind_core_list 0-3 train.py`, `deepspeed: error: unrecognized arguments: --bind_core_list`},
	{"0.9.0", `--bind_core_list 0-3 train.py`, `bind_core_list=0-3 | train.py`},
	{"0.7.7", `--enable_each_rank_log l train.py`, `deepspeed: error: unrecognized arguments: --enable_each_rank_log`},
	{"0.8.0", `--enable l train.py`, `enable_each_rank_log=l | train.py`},
	{"0.6.4", `--no_ssh_check train.py`, `deepspeed: error: unrecognized arguments: --no_ssh_check`},
	{"0.6.5", `--no_ssh train.py`, `no_ssh_check=True | train.py`},
	{"0.5.10", `--save_pid train.py`, `deepspeed: error: unrecognized arguments: --save_pid`},
	{"0.6.0", `--save train.py`, `save_pid=True | train.py`},
	{"0.9.2", `--num 2 train.py`, `deepspeed: error: ambiguous option: --num could match --num_nodes, --num_gpus`},
}

func TestParseDeepSpeed(t *testing.T) {
	for _, c := range deepSpeedCommands {
		t.Run(c.release+" "+c.words, func(t *testing.T) {
			got, err := Parse(append([]string{"/opt/venv/bin/deepspeed"}, split(t, c.words)...), c.release, bare)
			if text := deepSpeedText(got, err); text != c.want {
				t.Errorf("\ngot  %s\nwant %s", text, c.want)
			}
		})
	}
}

// bare has no variables and no files.
var bare = surroundings(nil, nil)

func surroundings(env, files map[string]string) Surroundings {
	return Surroundings{
		Getenv: func(name string) string { return env[name] },
		ReadFile: func(path string) ([]byte, error) {
			if text, isThere := files[path]; isThere {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
	}
}

func split(t *testing.T, text string) []string {
	t.Helper()
	words, err := launch.SplitWords(text)
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// deepSpeedText returns a command in the notation of deepSpeedCommands.
func deepSpeedText(t Typed, err error) string {
	if usage, ok := errors.AsType[*launch.UsageError](err); ok {
		return usage.Original
	}
	limit := func(l hostfile.Limit) int {
		if !l.Given {
			return -1
		}
		return l.N
	}
	var text []string
	for _, o := range []struct {
		name            string
		value, standard any
	}{
		{"hostfile", t.Hostfile, "/job/hostfile"}, {"include", t.Filter.Include, ""}, {"exclude", t.Filter.Exclude, ""},
		{"num_nodes", limit(t.Filter.NumNodes), -1}, {"num_gpus", limit(t.Filter.NumGPUs), -1}, {"force_multi", t.Filter.ForceMulti, false},
		{"master_addr", t.MasterAddr, ""}, {"master_port", t.MasterPort, 29500}, {"node_rank", t.NodeRank, -1},
		{"launcher", t.Launcher, ""}, {"launcher_args", t.LauncherArgs, ""}, {"no_ssh", t.NoSSH, false}, {"no_ssh_check", t.NoSSHCheck, false},
		{"ssh_port", t.SSHPort, 0}, {"module", t.Module, false}, {"no_python", t.NoPython, false}, {"no_local_rank", t.NoLocalRank, false},
		{"save_pid", t.SavePID, false}, {"enable_each_rank_log", t.EachRankLog, ""}, {"autotuning", t.Autotuning, ""},
		{"elastic_training", t.Elastic, false}, {"min_elastic_nodes", t.MinElastic, -1}, {"max_elastic_nodes", t.MaxElastic, -1},
		{"bind_cores_to_rank", t.BindCores, false}, {"bind_core_list", t.CoreList, ""}, {"venv_script", t.VenvScript, ""},
		{"log_level", t.LogLevel, ""}, {"quiet", t.Quiet, false},
	} {
		if o.value != o.standard {
			text = append(text, fmt.Sprintf("%s=%v", o.name, o.value))
		}
	}
	slices.Sort(text)
	text = append(text, "|", t.Script)
	for _, argument := range t.Arguments {
		text = append(text, "<"+argument+">")
	}
	return strings.ReplaceAll(strings.Join(text, " "), "=true", "=True")
}

// TestDeepSpeedHostfile checks whether the command names the hostfile that DeepSpeed will read.
func TestDeepSpeedHostfile(t *testing.T) {
	for _, c := range []struct {
		words string
		given bool
	}{
		{"train.py", false}, {"-H /job/hostfile train.py", true}, {"--hostf=h train.py", true}, {"-qHh train.py", true}, {"train.py -H h", false},
	} {
		got, err := Parse(append([]string{"ds"}, split(t, c.words)...), "", bare)
		if err != nil || got.HostfileGiven != c.given || got.HostsFile != got.Hostfile {
			t.Errorf("%s: %v, %q, %q, %v", c.words, got.HostfileGiven, got.Hostfile, got.HostsFile, err)
		}
	}
}

// TestWaysOut checks preflight's own error messages.
func TestWaysOut(t *testing.T) {
	for _, c := range []struct{ release, words, want string }{
		{"", "--num-gpus 2 train.py", "deepspeed: there is no option --num-gpus: write --num_gpus"},
		{"", "-num_gpus=2 train.py", "deepspeed: there is no option -num_gpus: write --num_gpus"},
		{"", "--elastic_training train.py", "deepspeed: there is no option --elastic_training since DeepSpeed 0.19.8: leave it out"},
		{"0.17.0", "--venv-script a train.py", "deepspeed: there is no option --venv-script before DeepSpeed 0.17.1: install that release, or leave it out"},
		{"", "--lr 1 train.py", "deepspeed: there is no option --lr: correct it, or move it after the script if it belongs to the script"},
		{"", "--num 2 train.py", "deepspeed: --num could be --num_nodes, --num_gpus, --num_accelerators: write it out (your Python also reads the script's arguments; write full names there, or use a newer Python)"},
		{"", "--launcher_args -x train.py", "deepspeed: --launcher_args needs a value; write a value that begins with a hyphen as --launcher_args=-…"},
		{"", "--num_nodes two train.py", `deepspeed: --num_nodes takes a whole number, not "two"`},
		{"", "--master_port tcp://10.96.12.7:29500 train.py", `deepspeed: --master_port takes a whole number, not "tcp://10.96.12.7:29500": Kubernetes sets MASTER_PORT to that if a Service is named master; write the port, or set enableServiceLinks: false for the pods`},
		{"", "--num_nodes 99999999999999999999 train.py", "deepspeed: --num_nodes must be smaller than 99999999999999999999"},
		{"", "--autotuning walk train.py", `deepspeed: --autotuning must be one of tune, run, not "walk"`},
		{"", "--module=1 train.py", `deepspeed: --module takes no value, but got "1"`},
		{"", "--module", "deepspeed: it names no script to start: put the script after the options, and the script's own arguments after the script"},
		{"", "--help", "deepspeed: this prints help and starts nothing"},
		{"", "--master_port 0 train.py", "deepspeed: --master_port 0 means any free port, which the other ranks would not know: give a port, like 29500"},
		{"", "--ssh_port 0 train.py", "deepspeed: --ssh_port 0 is not a port, and ssh refuses it: leave it out, or give sshd's port"},
		{"", "--launcher= train.py", "deepspeed: --launcher is empty: leave it out for pdsh"},
		{"", "--venv_script= train.py", "deepspeed: --venv_script is empty: leave it out, or give it a value"},
		{"", "--bind_core_list '' train.py", "deepspeed: --bind_core_list is empty: leave it out, or give it a value"},
		{"", "--enable_each_rank_log= train.py", "deepspeed: --enable_each_rank_log is empty: leave it out, or give it a value"},
		{"", "'' train.py", "deepspeed: the script is empty: name the program to train"},
	} {
		_, err := Parse(append([]string{"deepspeed"}, split(t, c.words)...), c.release, bare)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.words, err, c.want)
		}
	}
}

// TestAmbiguityBehindTheScript checks CPython's issue 58573, as observed in 3.11.7, 3.12.1, 3.12.10
// and 3.13.0.
func TestAmbiguityBehindTheScript(t *testing.T) {
	const ambiguous = "deepspeed: error: ambiguous option: --num could match --num_nodes, --num_gpus, --num_accelerators"
	for _, c := range []struct{ python, words, want string }{
		{"", "train.py --num 2", ambiguous}, {"3.11.7", "train.py --num 2", ambiguous}, {"3.12.1", "train.py --num 2", ambiguous}, {"3.13.0", "train.py --num 2", ambiguous},
		{"3.12.10", "train.py --num 2", "| train.py <--num> <2>"}, {"3.13.1", "train.py --num 2", "| train.py <--num> <2>"},
		{"3.12.10", "--num 2 train.py", ambiguous},
	} {
		around := bare
		around.Python = c.python
		got, err := Parse(append([]string{"deepspeed"}, split(t, c.words)...), "", around)
		if text := deepSpeedText(got, err); text != c.want {
			t.Errorf("%s: %s: %s", c.python, c.words, text)
		}
	}
}
