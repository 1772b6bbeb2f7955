// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/launch"
)

const llamaYAML = `### method
stage: sft
deepspeed: examples/deepspeed/ds_z3_config.json  # or another
dataset: identity,alpaca_en_demo
dataset_dir: data
output_dir: saves/qwen3-4b
model_name_or_path: Qwen/Qwen3-4B
cutoff_len: 2048
`

// The paths and options in llamaYAML.
var (
	llamaPaths   = []string{"sft", "identity,alpaca_en_demo", "./data", "./saves/qwen3-4b", "Qwen/Qwen3-4B"}
	llamaOptions = []string{"--stage=sft", "--dataset=identity,alpaca_en_demo", "--dataset_dir=data", "--output_dir=saves/qwen3-4b",
		"--model_name_or_path=Qwen/Qwen3-4B", "--cutoff_len=2048"}
)

const swiftYAML = `ENV:
  NPROC_PER_NODE: 8
  MASTER_PORT: 29501
model: Qwen/Qwen3-4B
dataset: [a.jsonl, b.jsonl]
deepspeed: zero3.json
model_kwargs: {max: 1}
output_dir: output
`

// TestFrameworks checks the command that each framework starts.
func TestFrameworks(t *testing.T) {
	files := map[string]string{"sft.yaml": llamaYAML, "swift.yaml": swiftYAML}
	torchrun := launch.Options{Program: launch.ProgramTorchrun, Rendezvous: launch.RendezvousStatic, MinNodes: 1, MaxNodes: 1, PerNode: "gpu", Module: true}
	for _, c := range []struct {
		command string
		env     map[string]string
		want    func(*launch.Options)
	}{
		{"llamafactory-cli train sft.yaml", nil, func(o *launch.Options) {
			o.Framework = "llamafactory-cli"
			o.MasterAddr, o.Script, o.Arguments = "127.0.0.1", "llamafactory.launcher", []string{"sft.yaml"}
			o.ConfigFile = "examples/deepspeed/ds_z3_config.json"
			o.Reads, o.Configured = llamaPaths, llamaOptions
		}},
		{"/opt/venv/bin/lmf train sft.yaml", map[string]string{
			"FORCE_TORCHRUN": "1", "NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "w1", "MASTER_PORT": "29600", "NPROC_PER_NODE": "8",
		}, func(o *launch.Options) {
			o.Framework = "lmf"
			o.MinNodes, o.MaxNodes, o.NodeRank, o.PerNode, o.MasterAddr, o.MasterPort = 2, 2, 1, "8", "w1", 29600
			o.Script, o.Arguments, o.ConfigFile = "llamafactory.launcher", []string{"sft.yaml"}, "examples/deepspeed/ds_z3_config.json"
			o.Reads, o.Configured = llamaPaths, llamaOptions
		}},
		{"llamafactory-cli train --stage sft --deepspeed ds.json", map[string]string{
			"FORCE_TORCHRUN": "true", "RDZV_ID": "a", "NNODES": "2", "MIN_NNODES": "1", "MAX_NNODES": "3", "MASTER_ADDR": "w1", "MASTER_PORT": "29600",
		}, func(o *launch.Options) {
			o.Framework = "llamafactory-cli"
			o.MinNodes, o.MaxNodes, o.Rendezvous, o.RdzvEndpoint, o.RdzvID = 1, 3, launch.RendezvousC10d, "w1:29600", "a"
			o.Script, o.Arguments = "llamafactory.launcher", []string{"--stage", "sft", "--deepspeed", "ds.json"}
		}},
		{"/usr/bin/python3 -m swift.cli.main sft swift.yaml --lora_rank 8", map[string]string{"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "w1", "MASTER_PORT": "29500"}, func(o *launch.Options) {
			o.Framework = "swift"
			o.MinNodes, o.MaxNodes, o.PerNode, o.MasterAddr, o.MasterPort = 2, 2, "8", "w1", 29500
			o.Script, o.Interpreter = "swift.cli.sft", "/usr/bin/python3"
			o.Arguments = []string{"--model", "Qwen/Qwen3-4B", "--dataset", "a.jsonl", "b.jsonl", "--deepspeed", "zero3.json", "--model_kwargs", `{"max":1}`, "--output_dir", "output", "--lora_rank", "8"}
		}},
		{"megatron pt --model x", map[string]string{"NPROC_PER_NODE": "4"}, func(o *launch.Options) {
			o.Framework = "megatron"
			o.PerNode, o.Script, o.Arguments = "4", "swift.cli._megatron.pt", []string{"--model", "x"}
		}},
		{"axolotl train sft.yaml --launcher torchrun --learning-rate 1e-4 -- --nnodes=2 --rdzv_endpoint w1:29400 --rdzv_id job", nil, func(o *launch.Options) {
			o.Framework = "axolotl"
			o.MinNodes, o.MaxNodes, o.PerNode, o.Rendezvous, o.RdzvEndpoint, o.RdzvID = 2, 2, "1", launch.RendezvousC10d, "w1:29400", "job"
			o.Script, o.Arguments, o.ConfigFile = "axolotl.cli.train", []string{"sft.yaml", "--learning-rate", "1e-4"}, "examples/deepspeed/ds_z3_config.json"
			o.Reads, o.Configured = llamaPaths, llamaOptions
		}},
		{"axolotl train sft.yaml --num-processes=16 -- --multi_gpu --num_machines 2 --machine_rank 0 --main_process_ip w1 --main_process_port 29500", nil, func(o *launch.Options) {
			o.Framework = "axolotl"
			o.Program, o.MinNodes, o.MaxNodes, o.PerNode, o.RdzvEndpoint = launch.ProgramAccelerate, 2, 2, "8", "w1:29500"
			o.Script, o.Arguments, o.ConfigFile = "axolotl.cli.train", []string{"sft.yaml"}, "examples/deepspeed/ds_z3_config.json"
			o.Reads, o.Configured = llamaPaths, llamaOptions
		}},
	} {
		got, err := Parse(split(t, c.command), "", surroundings(c.env, files))
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		want := torchrun
		c.want(&want)
		if diff := cmp.Diff(want, got.Options); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.command, diff)
		}
	}
}

// TestFrameworksRefused checks commands that would not start a training over all nodes. Each error
// says what to do instead.
func TestFrameworksRefused(t *testing.T) {
	for _, c := range []struct {
		command string
		env     map[string]string
		want    string
	}{
		{"llamafactory-cli chat x.yaml", nil, "llamafactory-cli: only llamafactory-cli train starts a training"},
		{"llamafactory-cli train x.yaml", map[string]string{"NNODES": "2"}, "llamafactory-cli: NNODES is 2, but on a node with one device it starts no torchrun and trains alone: set FORCE_TORCHRUN=1"},
		{"llamafactory-cli train x.yaml", map[string]string{"NNODES": "2", "FORCE_TORCHRUN": "1"}, "llamafactory-cli: NNODES is 2, but without MASTER_ADDR every node connects to itself"},
		{"llamafactory-cli train x.yaml", map[string]string{"NNODES": "2", "FORCE_TORCHRUN": "1", "MASTER_ADDR": "w1"}, "llamafactory-cli: NNODES is 2, but without MASTER_PORT every node uses a different free port"},
		{"llamafactory-cli train x.yaml", map[string]string{"RDZV_ID": "a", "MIN_NNODES": "1", "MAX_NNODES": "4", "FORCE_TORCHRUN": "1"}, "llamafactory-cli: MIN_NNODES:MAX_NNODES is 1:4, but without MASTER_ADDR every node connects to itself"},
		{"llamafactory-cli train x.yaml", map[string]string{"USE_RAY": "1"}, "llamafactory-cli: with USE_RAY or USE_KT it starts no torchrun"},
		{"axolotl preprocess x.yaml", nil, "axolotl: only axolotl train starts a training"},
		{"axolotl train x.yaml --launcher python", nil, "axolotl: with --launcher python it starts one process"},
		{"axolotl train x.yaml --launcher torchrun -- --nnodes=2 --rdzv_endpoint w1:29400", nil, "axolotl: without --rdzv_id, axolotl gives each node a random one"},
		{"axolotl train x.yaml --launcher torchrun --num-processes 8", nil, "torchrun: there is no option --num_processes"},
		{"axolotl train x.yaml --sweep s.yaml", nil, "axolotl: with --sweep it starts elsewhere, or many times"},
		{"swift infer --model x", nil, "swift: preflight checks only the trainings of swift: write swift sft, or swift pt, or swift rlhf …"},
		{"swift sft --model x", nil, "swift: without NPROC_PER_NODE and NNODES it starts one process"},
		{"swift sft lost.yaml", map[string]string{"NNODES": "2"}, "swift: lost.yaml not found: correct its path"},
	} {
		_, err := Parse(split(t, c.command), "", surroundings(c.env, nil))
		if _, isUsage := errors.AsType[*launch.UsageError](err); !isUsage || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.command, err, c.want)
		}
	}
}

// TestDataSetsOfConfiguration: axolotl's data sets become one option with several paths.
func TestDataSetsOfConfiguration(t *testing.T) {
	const text = "base_model: org/model\ndatasets:\n  - path: org/data\n    type: alpaca\n  - {path: json, data_files: [a.jsonl]}\n  - org/word\noutput_dir: out\n"
	got := configuredBy([]string{"axolotl.yaml"}, surroundings(nil, map[string]string{"axolotl.yaml": text}))
	want := []string{"--base_model=org/model", "--datasets", "org/data", "json", "--output_dir=out"}
	if diff := cmp.Diff(want, got.options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	named := launch.ModelsNamed(launch.Options{Script: "axolotl.cli.train", Configured: got.options})
	if len(named) != 2 || named[1].Name != "org/data" || !named[1].DataSet {
		t.Errorf("it names %+v", named)
	}
}
