// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/launch"
)

// Configurations of accelerate.
const (
	twoMachines = "distributed_type: DEEPSPEED\nnum_machines: 2\nnum_processes: 16\n"
	twoOfMany   = "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\nmachine_rank: 1\nmain_process_ip: h\nmain_process_port: 29501\n"
)

// accelerateCommands lists the results of accelerate 1.14.0 for a configuration and arguments under
// CPython 3.11. A result is the command that accelerate starts, or the options that it passes to
// torchrun in the notation of torchrunCommands, or the last line of the refusal.
var accelerateCommands = []struct{ config, words, want string }{
	{"", `--use_deepspeed --num_machines 2 --machine_rank 0 --num_processes 16 --deepspeed_hostfile hostfile train.py --lr 1`, `deepspeed --hostfile hostfile --no_local_rank --launcher pdsh --num_gpus 8 --master_port 29500 train.py --lr 1`},
	{"", `--use-deepspeed --num-machines=2 --machine-rank=0 --num-processes=16 --deepspeed-hostfile=hostfile --main_process_ip h --main_process_port 29501 -m pkg.mod`, `deepspeed --hostfile hostfile --no_local_rank --launcher pdsh --num_gpus 8 --master_addr h --master_port 29501 --module pkg.mod`},
	{twoMachines + "deepspeed_config:\n  deepspeed_hostfile: hostfile\n  deepspeed_multinode_launcher: openmpi\n  deepspeed_config_file: ds.json\n", `train.py`, `deepspeed --hostfile hostfile --no_local_rank --launcher openmpi --num_gpus 8 --master_port 29500 train.py`},
	{twoMachines + "deepspeed_config:\n  deepspeed_hostfile: hostfile\n  deepspeed_inclusion_filter: w1@w2\n", `--deepspeed_exclusion_filter w3 train.py`, `deepspeed --hostfile hostfile --no_local_rank --launcher pdsh --exclude w3 --master_port 29500 train.py`},
	{twoMachines + "deepspeed_config:\n  deepspeed_hostfile: hostfile\n  deepspeed_inclusion_filter: w1@w2\n", `--deepspeed_hostfile other train.py`, `deepspeed --hostfile other --no_local_rank --launcher pdsh --include w1@w2 --master_port 29500 train.py`},
	{twoMachines + "machine_rank: 1\ndeepspeed_config:\n  deepspeed_hostfile: hostfile\n  deepspeed_multinode_launcher: nossh\n", `--no_python ./run.sh`, `deepspeed --hostfile hostfile --node_rank 1 --no_ssh --num_gpus 8 --master_port 29500 --no_python ./run.sh`},
	{twoMachines + "main_process_ip: h\ndeepspeed_config:\n  deepspeed_multinode_launcher: standard\n", `train.py`, `2:2 x 8, static at h:29500 | train.py`},
	{twoMachines + "main_process_ip: h\n", `--deepspeed_multinode_launcher standard --same_network --main_process_port 29501 train.py`, `2:2 x 8, static of h:29501 | train.py`},
	{twoMachines + "main_process_ip: h\nrdzv_backend: c10d\n", `--deepspeed_multinode_launcher standard train.py`, `2:2 x 8, static at h:29500 | train.py`},
	{twoMachines + "main_process_ip: h\n", `--deepspeed_multinode_launcher standard --rdzv_backend c10d train.py`, `2:2 x 8, c10d at h:29500 | train.py`},
	{"distributed_type: DEEPSPEED\nnum_processes: 8\n", `train.py`, `1:1 x 8, static:29500 | train.py`},
	{twoOfMany, `train.py`, `2:2 x 8, static at h:29501, rank 1 | train.py`},
	{twoOfMany, `--num_machines 0 train.py`, `1:1 x 16, static:29501, rank 1 | train.py`},
	{twoOfMany, `--use_deepspeed --deepspeed_hostfile h --num_processes -3 train.py`, `deepspeed --hostfile h --no_local_rank --launcher pdsh --num_gpus -2 --master_addr h --master_port 29501 train.py`},
	{twoOfMany, `--num_processes 8 train.py`, `2:2 x 4, static at h:29501, rank 1 | train.py`},
	{"", `--num_processes 8 train.py`, `1:1 x 8, static:29500 | train.py`},
	{"", `--use_deepspeed --num_machines 2 --num_processes 16 --deepspeed_hostfile hostfile train.py`, `TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'`},
	{"distributed_type: DEEPSPEED\n", `train.py`, `ValueError: You need to manually pass in ´--num_processes´ using this config yaml.`},
	{"num_processes: 8\n", `train.py`, `ValueError: A ´distributed_type´ must be specified in the config file.`},
	{"distributed_type: DEEPSPEED\nhosts: 2\n", `train.py`, `ValueError: The config file at /hf/accelerate/default_config.yaml had unknown keys (['hosts']), please try upgrading your ´accelerate´ version or fix (and potentially remove) these keys from your config file.`},
	{"", `--config_file gone.yaml train.py`, `FileNotFoundError: The passed configuration file ´gone.yaml´ does not exist. Please pass an existing file to ´accelerate launch´, or use the default one created through ´accelerate config´ and run ´accelerate launch´ without the ´--config_file´ argument.`},
	{"", `--use_deepspeed --multi_gpu train.py`, `ValueError: You can only use one of ´--cpu´, ´--multi_gpu´, ´--tpu´, ´--use_deepspeed´, ´--use_fsdp´ at a time.`},
	{"", `--multi_gpu --num_machines 3 --machine_rank 0 --main_process_ip h --num_processes 2 train.py`, `AssertionError`},
	{"", `--multi_gpu --num_processes 1 train.py`, `ValueError: You need to use at least 2 processes to use ´--multi_gpu´.`},
	{"distributed_type: MULTI_GPU\nnum_processes: 8\ngpu_ids: '0'\n", `train.py`, `ValueError: Less than two GPU ids were configured and tried to run on on multiple GPUs. Please ensure at least two are specified for ´--gpu_ids´, or use ´--gpu_ids='all'´.`},
	{"", `--num_proc 8 train.py`, `Accelerate CLI tool: error: unrecognized arguments: --num_proc`},
	{"", `--num_machines two train.py`, `accelerate <command> [<args>] launch: error: argument --num_machines/--num-machines: invalid int value: 'two'`},
	{"", `--mixed_precision fp4 train.py`, `accelerate <command> [<args>] launch: error: argument --mixed_precision/--mixed-precision: invalid choice: 'fp4' (choose from 'no', 'fp16', 'bf16', 'fp8')`},
	{"", ``, `accelerate <command> [<args>] launch: error: the following arguments are required: training_script, training_script_args`},
	{"", `-m --no_python --num_processes 8 train.py`, `ValueError: --module and --no_python cannot be used together`},
}

func TestParseAccelerate(t *testing.T) {
	for _, c := range accelerateCommands {
		t.Run(c.config+c.words, func(t *testing.T) {
			files := map[string]string{}
			if c.config != "" {
				files["/hf/accelerate/default_config.yaml"] = c.config
			}
			around := surroundings(map[string]string{"HF_HOME": "/hf"}, files)
			got, err := Parse(append([]string{"accelerate", "launch"}, split(t, c.words)...), "", around)
			want, text := strings.ReplaceAll(c.want, "´", "`"), ""
			if _, isRefused := errors.AsType[*launch.UsageError](err); !isRefused && strings.HasPrefix(want, "deepspeed ") {
				asTyped, err := Parse(split(t, want), "", bare)
				want, text = deepSpeedText(asTyped, err), deepSpeedText(got, nil)
			} else {
				text = torchrunText(got, err)
			}
			if text != want {
				t.Errorf("\ngot  %s\nwant %s", text, want)
			}
			if err == nil && got.Program != launch.ProgramAccelerate {
				t.Errorf("program %q", got.Program)
			}
		})
	}
}

// TestAccelerateOwnRefusals checks commands that would make accelerate fail later, or that
// preflight does not support.
func TestAccelerateOwnRefusals(t *testing.T) {
	const two = "--num_machines 2 --machine_rank 0 --num_processes 16 "
	for _, c := range []struct{ config, words, want string }{
		{"", "--use_deepspeed " + two + "train.py", "without --deepspeed_hostfile"},
		{"", "--use_deepspeed --deepspeed_multinode_launcher standard " + two + "train.py", "--main_process_ip is missing"},
		{"", "--multi_gpu --main_process_ip h --num_machines 2 --machine_rank 0 train.py", "without --num_processes accelerate takes the number of accelerators"},
		{"", "--use_deepspeed --deepspeed_hostfile h --main_process_port 0 " + two + "train.py", "--main_process_port 0 means any free port"},
		{"", "--tpu train.py", "preflight does not support TPUs"},
		{"", "--cpu train.py", "with --cpu, or use_cpu in its configuration, this starts one process"},
		{"", "--num_processes 1 train.py", "this starts one process"},
		{"distributed_type: 'NO'\n", "train.py", "this starts one process"},
		{"distributed_type: MULTI_CPU\nnum_processes: 8\n", "train.py", "this starts one process"},
		{"distributed_type: DEEPSPEED\ncompute_environment: AMAZON_SAGEMAKER\n", "train.py", "/hf/accelerate/default_config.yaml has compute_environment AMAZON_SAGEMAKER"},
		{"distributed_type: DEEPSPEED\nnum_processes: many\n", "train.py", "/hf/accelerate/default_config.yaml has num_processes: many"},
		{"a: [", "train.py", "/hf/accelerate/default_config.yaml is not valid YAML"},
	} {
		files := map[string]string{}
		if c.config != "" {
			files["/hf/accelerate/default_config.yaml"] = c.config
		}
		_, err := Parse(append([]string{"accelerate-launch"}, split(t, c.words)...), "", surroundings(map[string]string{"HF_HOME": "/hf"}, files))
		usage, isRefused := errors.AsType[*launch.UsageError](err)
		if !isRefused || !strings.HasPrefix(usage.Message, c.want) || usage.Original != "" {
			t.Errorf("%s: %v", c.words, err)
		}
	}
	words := split(t, "accelerate-launch --use_deepspeed --deepspeed_hostfile h --deepspeed_multinode_launcher nossh "+two+"train.py")
	if _, err := Parse(words, "0.14.4", bare); err == nil || !strings.Contains(err.Error(), "nossh needs DeepSpeed 0.14.5") {
		t.Errorf("nossh before 0.14.5: %v", err)
	}
}

// TestAccelerateTraps checks the notes about surprising effects of accelerate.
func TestAccelerateTraps(t *testing.T) {
	for _, c := range []struct {
		words string
		want  []string
	}{
		{"--num_processes 16 --deepspeed_hostfile h", []string{"accelerate-writes-env"}},
		{"--num_processes 15 --deepspeed_hostfile h", []string{"accelerate-writes-env", "accelerate-uneven-processes"}},
		{"--num_processes 15 --deepspeed_hostfile h --deepspeed_inclusion_filter w1", []string{"accelerate-writes-env"}},
		{"--num_processes 16 --deepspeed_multinode_launcher standard --main_process_ip h", nil},
		{"--num_processes 15 --deepspeed_multinode_launcher standard --main_process_ip h", []string{"accelerate-uneven-processes"}},
	} {
		words := split(t, "accelerate launch --use_deepspeed --num_machines 2 --machine_rank 0 "+c.words+" train.py")
		typed, err := Parse(words, "", bare)
		var got []string
		for _, note := range typed.Notes {
			got = append(got, note.ID)
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.words, err, diff)
		}
	}
}

// TestAccelerateConfigFile checks where preflight looks for accelerate's configuration, and which
// DeepSpeed configuration that file names.
func TestAccelerateConfigFile(t *testing.T) {
	const text = `{"distributed_type": "DEEPSPEED", "num_processes": 8, "deepspeed_config": {"deepspeed_config_file": "FILE"}}`
	env := map[string]string{"HOME": "/home/u"}
	files := map[string]string{}
	for _, path := range []string{"/home/u/.cache/huggingface/accelerate/default_config.yaml", "/xdg/huggingface/accelerate/default_config.yaml", "/home/u/hf/accelerate/default_config.yaml", "c.json"} {
		files[path] = strings.Replace(text, "FILE", path, 1)
	}
	for _, c := range []struct{ name, value, words, want string }{
		{"", "", "train.py", "/home/u/.cache/huggingface/accelerate/default_config.yaml"},
		{"XDG_CACHE_HOME", "/xdg", "train.py", "/xdg/huggingface/accelerate/default_config.yaml"},
		{"HF_HOME", "~/hf", "train.py", "/home/u/hf/accelerate/default_config.yaml"},
		{"HF_HOME", "~/hf", "--config_file c.json train.py", "c.json"},
		{"HF_HOME", "~/hf", "--deepspeed-config-file ds.json train.py", "ds.json"},
	} {
		env[c.name] = c.value
		got, err := Parse(append([]string{"accelerate", "launch"}, split(t, c.words)...), "", surroundings(env, files))
		if err != nil || got.ConfigFile != c.want || got.PerNode != "8" {
			t.Errorf("%s=%s %s: %q, %v", c.name, c.value, c.words, got.ConfigFile, err)
		}
	}
}
