// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"preflight/launch"
)

// torchrunCommands lists the results of torch 2.15 for its arguments under CPython 3.11. A result
// is MIN:MAX nodes x processes, the rendezvous, and the script, or the last line of the refusal.
// how holds variables. "launch" in how means torch.distributed.launch.
var torchrunCommands = []struct{ how, words, want string }{
	{"", `train.py`, `1:1 x 1, static | train.py`},
	{"", `--nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint h:29400 train.py --lr 1`, `4:4 x 8, c10d at h:29400 | train.py <--lr> <1>`},
	{"", `--nnodes=2:4 --nproc_per_node=gpu --rdzv_backend=c10d --rdzv_endpoint=h train.py`, `2:4 x gpu, c10d at h | train.py`},
	{"", `--nnodes 2 --node_rank 1 --master_addr 10.0.0.1 --master-port 29501 train.py`, `2:2 x 1, static of 10.0.0.1:29501, rank 1 | train.py`},
	{"", `--standalone --nproc-per-node auto train.py`, `1:1 x auto, c10d at localhost:0 | train.py`},
	{"", `-m pkg.mod --x`, `1:1 x 1, static, module | pkg.mod <--x>`},
	{"", `--no-python ./run.sh`, `1:1 x 1, static, no python | ./run.sh`},
	{"", `-mr3 pkg.mod`, `1:1 x 1, static, module | pkg.mod`},
	{"", `--run-path -m --no-python /s.py`, `1:1 x 1, static | /s.py`},
	{"", `--nnodes 4:2 train.py`, `AssertionError: min_nodes must be > 0 and <= max_nodes, got min_nodes=4, max_nodes=2`},
	{"", `--nnodes 0 train.py`, `AssertionError: min_nodes must be > 0 and <= max_nodes, got min_nodes=0, max_nodes=0`},
	{"", `--nnodes 1:2:3 train.py`, `RuntimeError: nnodes=1:2:3 is not in "MIN:MAX" format`},
	{"", `--nnodes x train.py`, `ValueError: invalid literal for int() with base 10: 'x'`},
	{"", `--nproc-per-node many train.py`, `ValueError: Unsupported nproc_per_node value: many`},
	{"", `--nproc-per-node ' 8' train.py`, `1:1 x 8, static | train.py`},
	{"", `--nproc-per-node 08 train.py`, `1:1 x 8, static | train.py`},
	{"", `-rt train.py`, `ValueError: t does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>`},
	{"", `-r 3 --tee 0:1,1:3 train.py`, `1:1 x 1, static | train.py`},
	{"", `--tee 0:4 train.py`, `ValueError: 0:4 does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>`},
	{"", `--local-ranks-filter 0,x train.py`, `ValueError: --local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2`},
	{"", `--max-restarts -1 train.py`, `AssertionError: max_restarts must be >= 0`},
	{"", `--max-restarts=-1 train.py`, `AssertionError: max_restarts must be >= 0`},
	{"", `--monitor-interval 0x1p3 train.py`, `torchrun: error: argument --monitor-interval/--monitor_interval: invalid float value: '0x1p3'`},
	{"", `--monitor-interval 1e-1 train.py`, `1:1 x 1, static | train.py`},
	{"", `--rdzv-conf a train.py`, `ValueError: The rendezvous configuration option 'a' must have a value specified.`},
	{"", `--rdzv-conf =b train.py`, `ValueError: The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.`},
	{"", `--rdzv-conf 'a=b, c=d' train.py`, `1:1 x 1, static | train.py`},
	{"", `--rdzv-conf 'a= ' train.py`, `ValueError: The rendezvous configuration option 'a' must have a value specified.`},
	{"", `-m --no-python train.py`, `ValueError: Don't use both the '--no-python' flag and the '--module' flag at the same time.`},
	{"", `--nproc 8 train.py`, `torchrun: error: ambiguous option: --nproc could match --nproc-per-node, --nproc_per_node`},
	{"", `--nnod 2 train.py`, `2:2 x 1, static | train.py`},
	{"", `--rdzv-backend etcd-v2 --rdzv-endpoint e:2379 train.py`, `1:1 x 1, etcd-v2 at e:2379 | train.py`},
	{"", `--rdzv-backend '' train.py`, `ValueError: The rendezvous backend name must be a non-empty string.`},
	{"", `--rdzv-backend deepspeed train.py`, "ValueError: The rendezvous backend 'deepspeed' is not registered. Did you forget to call `register`?"},
	{"", `--standalone --rdzv-backend '' train.py`, `1:1 x 1, c10d at localhost:0 | train.py`},
	{"", `--use-env train.py`, `torchrun: error: unrecognized arguments: --use-env`},
	{"launch", `--use_env train.py`, `1:1 x 1, static | train.py`},
	{"launch", `--no-python train.py`, `ValueError: When using the '--no-python' flag, you must also set the '--use-env' flag.`},
	{"launch", `--use-env --no-python train.py`, `1:1 x 1, static, no python | train.py`},
	{"", ``, `torchrun: error: the following arguments are required: training_script, training_script_args`},
	{"", `--hostfile h train.py`, `torchrun: error: unrecognized arguments: --hostfile`},
	{"", `--node-rank one train.py`, `torchrun: error: argument --node-rank/--node_rank: invalid int value: 'one'`},
	{"", `train.py --nnodes 2`, `1:1 x 1, static | train.py <--nnodes> <2>`},
	{"", `train.py --node`, `torchrun: error: ambiguous option: --node could match --node-rank, --node_rank`},
	{"PET_NNODES=2 PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=h:1", `train.py`, `2:2 x 1, c10d at h:1 | train.py`},
	{"PET_NNODES=2", `--nnodes 3 train.py`, `3:3 x 1, static | train.py`},
	{"PET_NODE_RANK=x", `train.py`, `torchrun: error: argument --node-rank/--node_rank: invalid int value: 'x'`},
	{"PET_NODE_RANK=x", `--node-rank 1 train.py`, `1:1 x 1, static, rank 1 | train.py`},
	{"PET_NODE_RANK=x", `--nnodes`, `torchrun: error: argument --nnodes: expected one argument`},
	{"PET_STANDALONE=1", `train.py`, `1:1 x 1, c10d at localhost:0 | train.py`},
	{"PET_STANDALONE=-0", `train.py`, `1:1 x 1, static | train.py`},
	{"PET_MODULE=x", `train.py`, `ValueError: invalid literal for int() with base 10: 'x'`},
	{"PET_MASTER_ADDR=m PET_MASTER_PORT=1 PET_NPROC_PER_NODE=2", `train.py`, `1:1 x 2, static of m:1 | train.py`},
	{"launch PET_USE_ENV=x", `train.py`, `1:1 x 1, static | train.py`},
}

func TestParseTorchrun(t *testing.T) {
	for _, c := range torchrunCommands {
		t.Run(c.how+" "+c.words, func(t *testing.T) {
			command, env := []string{"torchrun"}, map[string]string{}
			for word := range strings.FieldsSeq(c.how) {
				if name, value, isSet := strings.Cut(word, "="); isSet {
					env[name] = value
				} else {
					command = []string{"python", "-m", "torch.distributed.launch"}
				}
			}
			got, err := Parse(append(command, split(t, c.words)...), "", surroundings(env, nil))
			if text := torchrunText(got, err); text != c.want {
				t.Errorf("\ngot  %s\nwant %s", text, c.want)
			}
			if err == nil && (got.Program != launch.ProgramTorchrun || got.Hostfile != "") {
				t.Errorf("program %q, hostfile %q", got.Program, got.Hostfile)
			}
		})
	}
}

// torchrunText returns a command in the notation of torchrunCommands.
func torchrunText(t Typed, err error) string {
	if usage, ok := errors.AsType[*launch.UsageError](err); ok {
		return usage.Original
	}
	text := fmt.Sprintf("%d:%d x %s, %s", t.MinNodes, t.MaxNodes, t.PerNode, t.Rendezvous)
	for _, part := range []struct {
		given bool
		text  string
	}{
		{t.RdzvEndpoint != "", " at " + t.RdzvEndpoint}, {t.MasterAddr != "", " of " + t.MasterAddr}, {t.MasterPort != 0, fmt.Sprint(":", t.MasterPort)},
		{t.NodeRank != 0, fmt.Sprint(", rank ", t.NodeRank)}, {t.Module, ", module"}, {t.NoPython, ", no python"},
	} {
		if part.given {
			text += part.text
		}
	}
	text += " | " + t.Script
	for _, argument := range t.Arguments {
		text += " <" + argument + ">"
	}
	return text
}

// TestTorchrunBackends checks the note about backends that preflight does not know.
func TestTorchrunBackends(t *testing.T) {
	for backend, want := range map[string]string{"static": "", "c10d": "", "etcd": "rdzv-backend-unknown", "etcd-v2": "rdzv-backend-unknown"} {
		got, err := Parse([]string{"torchrun", "--rdzv-backend", backend, "train.py"}, "", bare)
		if err != nil {
			t.Fatal(err)
		}
		trap := ""
		for _, note := range got.Notes {
			trap += note.ID
		}
		if trap != want {
			t.Errorf("%s: noted %q, want %q", backend, trap, want)
		}
	}
}

func TestLogLevel(t *testing.T) {
	for level, want := range map[string]int{"": 0, "INFO": 0, "WARN": 0, "info": 1, "10": 1, "verbose": 1} {
		around := bare
		around.Getenv = func(name string) string { return map[string]string{"LOGLEVEL": level}[name] }
		got, err := Parse([]string{"torchrun", "train.py"}, "", around)
		if err != nil || len(got.Notes) != want {
			t.Errorf("LOGLEVEL=%s: notes %+v, error %v, want %d notes", level, got.Notes, err, want)
		}
	}
}

// TestNodeRanks: the static backend uses any node rank that it is given, and c10d uses none.
func TestNodeRanks(t *testing.T) {
	nodes := map[string]string{"NNODES": "2", "MASTER_ADDR": "w1", "MASTER_PORT": "29500", "FORCE_TORCHRUN": "1"}
	ranked := func(rank string) map[string]string {
		env := maps.Clone(nodes)
		env["NODE_RANK"] = rank
		return env
	}
	for _, c := range []struct {
		command string
		env     map[string]string
		want    string
	}{
		{"torchrun --nnodes 2 --node_rank 1 train.py", nil, ""},
		{"torchrun --nnodes 2 --node_rank 7 train.py", nil, "node-rank-range"},
		{"torchrun --nnodes 2 --node_rank=-1 train.py", nil, "node-rank-range"},
		{"torchrun --nnodes 2 train.py", nil, "node-rank-missing"},
		{"torchrun --nnodes 2 train.py", map[string]string{"PET_NODE_RANK": "1"}, ""},
		{"torchrun train.py", nil, ""},
		{"torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint w1 --node_rank 7 train.py", nil, ""},
		{"accelerate launch --multi_gpu --num_machines 2 --num_processes 4 --main_process_ip w1 --machine_rank 2 train.py", nil, "node-rank-range"},
		{"accelerate launch --multi_gpu --num_machines 2 --num_processes 4 --main_process_ip w1 --machine_rank 1 train.py", nil, ""},
		{"accelerate launch --num_processes 4 train.py", nil, ""},
		{"swift sft --model x", nodes, "node-rank-missing"},
		{"swift sft --model x", ranked("2"), "node-rank-range"},
		{"llamafactory-cli train x.yaml", nodes, "node-rank-missing"},
		{"llamafactory-cli train x.yaml", ranked("0"), ""},
		{"llamafactory-cli train x.yaml", ranked("7"), "node-rank-range"},
	} {
		typed, err := Parse(split(t, c.command), "", surroundings(c.env, nil))
		got := ""
		for _, note := range typed.Notes {
			got += note.ID
		}
		if err != nil || got != c.want {
			t.Errorf("%s: noted %q, want %q; %v", c.command, got, c.want, err)
		}
	}
}
