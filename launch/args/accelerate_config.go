// SPDX-License-Identifier: Apache-2.0

package args

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"preflight/hostfile"
)

// accelerateConfig is a configuration file of accelerate. Options on the command line override it.
// JSON is read as YAML.
//
// Source: huggingface/accelerate 1.14, commands/config/config_args.py, ClusterConfig.
type accelerateConfig struct {
	path   string
	values map[string]any
}

// configKeys lists all keys that a configuration may contain.
var configKeys = strings.Fields(`compute_environment distributed_type mixed_precision use_cpu debug num_processes machine_rank num_machines gpu_ids
	main_process_ip main_process_port rdzv_backend same_network main_training_function enable_cpu_affinity fp8_config deepspeed_config fsdp_config
	parallelism_config megatron_lm_config mpirun_config downcast_bf16 tpu_name tpu_zone tpu_use_cluster tpu_use_sudo command_file commands tpu_vm tpu_env
	dynamo_config dynamo_backend fp16`)

// configure fills in options that the command line does not set. Without a configuration,
// accelerate inspects the machine instead.
//
// Source: huggingface/accelerate 1.14, commands/launch.py, _validate_launch_command.
func (a *accelerateArgs) configure(around Surroundings) error {
	chosen := 0
	for _, one := range []bool{a.multiGPU, a.cpu, a.tpu, a.useDeepSpeed, a.useFSDP} {
		if one {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return refuseAccelerate("ValueError: You can only use one of `--cpu`, `--multi_gpu`, `--tpu`, `--use_deepspeed`, `--use_fsdp` at a time.", "--cpu, --multi_gpu, --tpu, --use_deepspeed and --use_fsdp conflict: keep one")
	case a.multiGPU && a.processes != nil && *a.processes < 2:
		return refuseAccelerate("ValueError: You need to use at least 2 processes to use `--multi_gpu`.", "--multi_gpu needs at least --num_processes 2")
	}
	config, err := a.readConfig(around)
	if err != nil || config == nil {
		return err
	}
	a.configured = true
	if !a.multiGPU && !a.tpu && !a.useDeepSpeed && !a.useFSDP && !a.useMegatron {
		kind := config.text("distributed_type")
		a.useDeepSpeed, a.useFSDP, a.useMegatron = kind == "DEEPSPEED", kind == "FSDP", kind == "MEGATRON_LM"
		a.tpu = kind == "XLA" || kind == "TPU"
		a.multiGPU = strings.HasPrefix(kind, "MULTI_") && kind != "MULTI_CPU"
	}
	return a.fill(config)
}

// fill copies options from the configuration that the command line does not set. same_network and
// rdzv_backend are never copied, because their options have defaults.
func (a *accelerateArgs) fill(config *accelerateConfig) error {
	oneProcess := -1 // ClusterConfig's value for "not given"
	if config.text("distributed_type") == "NO" {
		oneProcess = 1
	}
	for _, number := range []struct {
		key      string
		into     **int
		standard *int // the default in ClusterConfig
	}{
		{"num_processes", &a.processes, &oneProcess}, {"num_machines", &a.numMachines, new(1)},
		{"machine_rank", &a.machineRank, new(0)}, {"main_process_port", &a.port, nil},
	} {
		if *number.into != nil {
			continue
		}
		value, err := config.number(number.key)
		if err != nil {
			return err
		}
		if *number.into = value; value == nil {
			*number.into = number.standard
		}
	}
	if a.ip == "" {
		a.ip = config.text("main_process_ip")
	}
	for _, text := range []struct {
		section, key string
		into         *string
	}{
		{"deepspeed_config", "deepspeed_hostfile", &a.hostfile},
		{"deepspeed_config", "deepspeed_inclusion_filter", &a.inclusion},
		{"deepspeed_config", "deepspeed_exclusion_filter", &a.exclusion},
		{"deepspeed_config", "deepspeed_multinode_launcher", &a.launcher},
		{"deepspeed_config", "deepspeed_config_file", &a.deepspeedConfig},
		{"mpirun_config", "mpirun_hostfile", &a.mpirunHostfile},
	} {
		if *text.into == "" {
			*text.into = config.section(text.section).text(text.key)
		}
	}
	if a.gpuIDs == "" {
		a.gpuIDs = cmp.Or(config.text("gpu_ids"), "all")
	}
	switch {
	case a.multiGPU && *a.numMachines <= 1 && a.gpuIDs != "all" && !strings.Contains(a.gpuIDs, ","):
		return refuseAccelerate("ValueError: Less than two GPU ids were configured and tried to run on on multiple GPUs. Please ensure at least two are specified for `--gpu_ids`, or use `--gpu_ids='all'`.",
			"a multi-GPU training has only one GPU, --gpu_ids %s: name more, or all", a.gpuIDs)
	case *a.processes == -1:
		return refuseAccelerate("ValueError: You need to manually pass in `--num_processes` using this config yaml.", "%s has no num_processes: give --num_processes, the total of all machines", config.path)
	}
	return nil
}

func (a *accelerateArgs) readConfig(around Surroundings) (*accelerateConfig, error) {
	config := &accelerateConfig{path: a.configFile}
	if config.path == "" {
		if a.cpu {
			return nil, nil
		}
		config.path = defaultConfig(around.Getenv)
	}
	data, err := around.ReadFile(config.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.configFile == "":
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuseAccelerate(fmt.Sprintf("FileNotFoundError: The passed configuration file `%s` does not exist. Please pass an existing file to `accelerate launch`, or use the default one created through `accelerate config` and run `accelerate launch` without the `--config_file` argument.", config.path),
			"%s not found: correct --config_file", config.path)
	case err != nil:
		return nil, refuseAccelerate("", "%s cannot be read (%v): make it readable, or name another one with --config_file", config.path, err)
	}
	if err := yaml.Unmarshal(data, &config.values); err != nil {
		return nil, refuseAccelerate("", "%s is not valid YAML (%v): write it again with accelerate config", config.path, err)
	}
	return config, config.check()
}

// defaultConfig returns the path to which "accelerate config" writes.
//
// Source: huggingface/accelerate 1.14, commands/config/config_args.py.
func defaultConfig(getenv func(string) string) string {
	home := getenv("HF_HOME")
	if home == "" {
		cache := getenv("XDG_CACHE_HOME")
		if cache == "" {
			cache = "~/.cache"
		}
		home = path.Join(cache, "huggingface")
	}
	if below, found := strings.CutPrefix(home, "~/"); found {
		home = path.Join(getenv("HOME"), below)
	}
	return path.Join(home, "accelerate", "default_config.yaml")
}

// check refuses configurations that accelerate rejects or that preflight does not support.
func (c *accelerateConfig) check() error {
	if where := c.text("compute_environment"); where != "" && where != "LOCAL_MACHINE" {
		return refuseAccelerate("", "%s has compute_environment %s, which preflight does not support: name another configuration with --config_file", c.path, where)
	}
	if c.text("distributed_type") == "" {
		return refuseAccelerate("ValueError: A `distributed_type` must be specified in the config file.", "%s has no distributed_type: add distributed_type: DEEPSPEED", c.path)
	}
	var unknown []string
	for key := range c.values {
		if !slices.Contains(configKeys, key) {
			unknown = append(unknown, hostfile.PythonRepr(key))
		}
	}
	slices.Sort(unknown)
	if unknown == nil {
		return nil
	}
	names := strings.Join(unknown, ", ")
	return refuseAccelerate(fmt.Sprintf("ValueError: The config file at %s had unknown keys ([%s]), please try upgrading your `accelerate` version or fix (and potentially remove) these keys from your config file.", c.path, names),
		"%s has keys that accelerate does not know, %s: remove them", c.path, names)
}

func (c *accelerateConfig) section(name string) *accelerateConfig {
	values, _ := c.values[name].(map[string]any)
	return &accelerateConfig{c.path, values}
}

// text returns a value as Python's str() prints it, "" for none.
func (c *accelerateConfig) text(key string) string {
	if value := c.values[key]; value != nil {
		return fmt.Sprint(value)
	}
	return ""
}

func (c *accelerateConfig) number(key string) (*int, error) {
	switch value := c.values[key].(type) {
	case nil:
		return nil, nil
	case int:
		return &value, nil
	default:
		return nil, refuseAccelerate("", "%s has %s: %v, which is not a whole number: correct it", c.path, key, value)
	}
}
