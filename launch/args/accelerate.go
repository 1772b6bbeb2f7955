// SPDX-License-Identifier: Apache-2.0

package args

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"preflight/hostfile"
	"preflight/launch"
)

// standardLauncher is accelerate's name for torchrun, started on every machine.
const standardLauncher = "standard"

// parseAccelerate parses the words after "accelerate launch" and then the command that accelerate
// builds from them. That command is deepspeed, with or without ssh, or torchrun, which accelerate
// runs in its own process.
//
// Source: huggingface/accelerate 1.14, commands/launch.py, launch_command.
func parseAccelerate(p program, deepspeed string, around Surroundings) (Typed, error) {
	a := &accelerateArgs{backend: launch.RendezvousStatic}
	parser := argumentParser{program: launch.ProgramAccelerate, prog: p.prog, outer: p.outer, options: a.options(), required: "training_script, training_script_args"}
	r, err := parser.parse(p.words)
	if err != nil {
		return Typed{}, err
	}
	a.script, a.arguments = r.script, r.arguments
	if err := a.configure(around); err != nil {
		return Typed{}, err
	}
	var t Typed
	switch {
	case a.cpu:
		return Typed{}, refuseAccelerate("", "with --cpu, or use_cpu in its configuration, this starts one process that connects to no other node: replace it with --multi_gpu, which also trains on CPUs")
	case a.isSimple():
		return Typed{}, refuseAccelerate("", "this starts one process that connects to no other node (without --use_deepspeed or --multi_gpu, on the command line or as distributed_type in its configuration): add the one that you want")
	case a.tpu:
		return Typed{}, refuseAccelerate("", "preflight does not support TPUs: start the training without preflight")
	case a.useDeepSpeed && a.machines() > 1 && a.launcher != standardLauncher:
		t, err = a.deepSpeed(deepspeed, around)
	default:
		t, err = a.torchrun(around)
	}
	if err != nil {
		return Typed{}, err
	}
	t.Program, t.ConfigFile = launch.ProgramAccelerate, a.deepspeedConfig
	return t, nil
}

func refuseAccelerate(original, format string, values ...any) *launch.UsageError {
	return &launch.UsageError{Program: launch.ProgramAccelerate, Original: original, Message: fmt.Sprintf(format, values...)}
}

// isSimple reports whether accelerate starts the script itself, without torchrun. Without a
// configuration, a machine with several accelerators gets torchrun automatically.
func (a *accelerateArgs) isSimple() bool {
	if a.useDeepSpeed || a.useFSDP || a.useMegatron || a.multiGPU || a.tpu {
		return false
	}
	return a.configured || a.processes != nil && *a.processes <= 1
}

func (a *accelerateArgs) machines() int { return max(orElse(a.numMachines, 1), 1) }

func orElse(n *int, other int) int {
	if n == nil {
		return other
	}
	return *n
}

func (a *accelerateArgs) perMachine() (int, error) {
	if a.processes == nil {
		return 0, refuseAccelerate("", "without --num_processes accelerate takes the number of accelerators of this machine and divides it among the %d machines: give the total of all machines", a.machines())
	}
	n := *a.processes / a.machines()
	if *a.processes < n*a.machines() {
		n-- // Python's division rounds down
	}
	return n, nil
}

// unevenNotes warns about processes that accelerate does not start.
func (a *accelerateArgs) unevenNotes() []hostfile.Note {
	each, err := a.perMachine()
	if err != nil || *a.processes == each*a.machines() {
		return nil
	}
	return []hostfile.Note{{ID: "accelerate-uneven-processes", Message: fmt.Sprintf(
		"--num_processes %d on %d machines leaves a remainder of %d: accelerate starts %d on each and ignores the rest; use a multiple", *a.processes, a.machines(), *a.processes-each*a.machines(), each)}}
}

// deepSpeed returns the deepspeed command that accelerate starts, parsed as DeepSpeed parses it.
//
// Source: huggingface/accelerate 1.14, utils/launch.py, prepare_deepspeed_cmd_env.
func (a *accelerateArgs) deepSpeed(deepspeed string, around Surroundings) (Typed, error) {
	isByHand := a.launcher == "nossh"
	if isByHand && hostfile.Before(deepspeed, "0.14.5") {
		return Typed{}, refuseAccelerate("ValueError: nossh launcher requires DeepSpeed >= 0.14.5", "--deepspeed_multinode_launcher nossh needs DeepSpeed 0.14.5, but %s is installed: upgrade it, or use another launcher", deepspeed)
	}
	if err := a.refused(); err != nil {
		return Typed{}, err
	}
	if a.hostfile == "" {
		return Typed{}, refuseAccelerate("", "without --deepspeed_hostfile accelerate starts deepspeed --hostfile None, and DeepSpeed trains on this machine alone: name the hostfile")
	}
	words := []string{"--hostfile", a.hostfile}
	if isByHand {
		words = append(words, "--node_rank", strconv.Itoa(*a.machineRank), "--no_ssh")
	} else {
		words = append(words, "--no_local_rank", "--launcher", cmp.Or(a.launcher, launch.DefaultLauncher))
	}
	notes := []hostfile.Note{{ID: "accelerate-writes-env", Message: "accelerate appends its whole environment to .deepspeed_env in the working directory at every launch, and DeepSpeed exports all of that to every node, PATH and LD_LIBRARY_PATH included: move it away before each launch, and keep lines of your own in ~/.deepspeed_env"}}
	switch {
	case a.exclusion != "":
		words = append(words, "--exclude", a.exclusion)
	case a.inclusion != "":
		words = append(words, "--include", a.inclusion)
	default:
		each, err := a.perMachine()
		if err != nil {
			return Typed{}, err
		}
		words = append(words, "--num_gpus", strconv.Itoa(each))
		notes = append(notes, a.unevenNotes()...)
	}
	if a.ip != "" {
		words = append(words, "--master_addr", a.ip)
	}
	words = append(words, "--master_port", strconv.Itoa(a.masterPort()))
	switch {
	case a.isModule:
		words = append(words, "--module")
	case a.noPython:
		words = append(words, "--no_python")
	}
	words = append(append(words, a.script), a.arguments...)
	t, err := parseDeepSpeed(launch.ProgramDeepSpeed, words, deepspeed, around)
	t.Notes = append(t.Notes, notes...)
	return t, err
}

// masterPort returns accelerate's value for --main_process_port. 0 means any free port, which is
// chosen when the launch begins.
func (a *accelerateArgs) masterPort() int { return orElse(a.port, launch.DefaultMasterPort) }

func (a *accelerateArgs) refused() error {
	switch {
	case a.isModule && a.noPython:
		return refuseAccelerate("ValueError: --module and --no_python cannot be used together", "--module and --no_python conflict: drop one")
	case a.machines() > 1 && a.machineRank == nil:
		return refuseAccelerate("TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'", "--machine_rank is missing, and accelerate fails without it: add --machine_rank 0 on the first machine")
	case a.machines() > 1 && a.masterPort() == 0:
		return refuseAccelerate("", "--main_process_port 0 means any free port, which the other machines would not know: give a port, like %d", launch.DefaultMasterPort)
	}
	return nil
}

// torchrun returns what accelerate passes to torch.distributed.run, which it calls as a function.
//
// Source: huggingface/accelerate 1.14, utils/launch.py, prepare_multi_gpu_env and
// prepare_deepspeed_cmd_env, which agree.
func (a *accelerateArgs) torchrun(around Surroundings) (Typed, error) {
	if err := a.refused(); err != nil {
		return Typed{}, err
	}
	each := "gpu" // one per GPU of the node
	if a.processes != nil || a.machines() > 1 {
		n, err := a.perMachine()
		if err != nil {
			return Typed{}, err
		}
		if each = strconv.Itoa(n); n < 1 {
			return Typed{}, refuseAccelerate("AssertionError", "--num_processes %d is the total of all %d machines, so that each would start none: give at least one for each machine", *a.processes, a.machines())
		}
	}
	run := torchrunArgs{nnodes: strconv.Itoa(a.machines()), perNode: each, backend: a.backend, conf: a.rdzvConf, redirects: "0", tee: "0", isModule: a.isModule, noPython: a.noPython}
	port := a.masterPort()
	switch {
	case a.machines() == 1:
		run.masterPort = &port
	case a.ip == "":
		return Typed{}, refuseAccelerate("", "--main_process_ip is missing, and accelerate would use a host named None: give the address of the first machine")
	case a.sameNetwork:
		run.masterAddr, run.masterPort = a.ip, &port
	default:
		run.endpoint = fmt.Sprintf("%s:%d", a.ip, port)
	}
	run.nodeRank = a.machineRank
	t, err := run.typed()
	if err != nil {
		return Typed{}, err
	}
	t.Script, t.Arguments, t.Interpreter = a.script, a.arguments, ranksPython(around)
	t.Notes = append(append(t.Notes, a.unevenNotes()...), logLevelNote(around)...)
	return t, nil
}

// accelerateLaunch is the name that accelerate-launch uses in its own messages.
const accelerateLaunch = "Accelerate launch command"

// accelerateArgs holds the results of accelerate's parser that preflight needs, completed from its
// configuration file. A number that is not given is nil, and a text that is not given is "".
type accelerateArgs struct {
	configFile                     string
	configured                     bool // a configuration was read
	cpu, multiGPU, tpu             bool
	useDeepSpeed, useFSDP          bool
	useMegatron, sameNetwork       bool
	isModule, noPython             bool
	processes, numMachines         *int
	machineRank, port              *int
	ip, backend, rdzvConf          string
	hostfile, inclusion, exclusion string
	launcher, deepspeedConfig      string
	mpirunHostfile, gpuIDs         string
	script                         string
	arguments                      []string
}

// options returns accelerate's options. Options that do not affect the prediction are read and
// ignored.
//
// Source: huggingface/accelerate 1.14, commands/launch.py, launch_command_parser, and
// commands/utils.py for the hyphens.
func (a *accelerateArgs) options() []option {
	options := []option{
		{names: []string{"-h", "--help"}},
		{names: []string{"-q", "--quiet"}, into: new(bool)},
		{names: []string{"-t", "--tee"}, into: new(string)},
		{names: []string{"-m", "--module"}, into: &a.isModule},
		{names: spellings("--config_file"), into: &a.configFile},
		{names: []string{"--cpu"}, into: &a.cpu},
		{names: spellings("--multi_gpu"), into: &a.multiGPU},
		{names: []string{"--tpu"}, into: &a.tpu},
		{names: spellings("--use_deepspeed"), into: &a.useDeepSpeed},
		{names: spellings("--use_fsdp"), into: &a.useFSDP},
		{names: spellings("--use_megatron_lm"), into: &a.useMegatron},
		{names: spellings("--num_processes"), into: &a.processes},
		{names: spellings("--num_machines"), into: &a.numMachines},
		{names: spellings("--machine_rank"), into: &a.machineRank},
		{names: spellings("--main_process_ip"), into: &a.ip},
		{names: spellings("--main_process_port"), into: &a.port},
		{names: spellings("--same_network"), into: &a.sameNetwork},
		{names: spellings("--gpu_ids"), into: &a.gpuIDs},
		{names: spellings("--rdzv_backend"), into: &a.backend},
		{names: spellings("--rdzv_conf"), into: &a.rdzvConf},
		{names: spellings("--no_python"), into: &a.noPython},
		{names: spellings("--deepspeed_config_file"), into: &a.deepspeedConfig},
		{names: spellings("--deepspeed_hostfile"), into: &a.hostfile},
		{names: spellings("--deepspeed_exclusion_filter"), into: &a.exclusion},
		{names: spellings("--deepspeed_inclusion_filter"), into: &a.inclusion},
		{names: spellings("--deepspeed_multinode_launcher"), into: &a.launcher},
		{names: spellings("--mpirun_hostfile"), into: &a.mpirunHostfile},
	}
	for name, choices := range forgottenChoices {
		options = append(options, option{names: spellings(name), into: new(string), choices: choices})
	}
	for _, forgotten := range []struct {
		names string
		into  any
	}{{forgottenTexts, new(string)}, {forgottenNumbers, new(int)}, {forgottenFloats, new(float64)}, {forgottenFlags, new(bool)}} {
		for name := range strings.FieldsSeq(forgotten.names) {
			options = append(options, option{names: spellings(name), into: forgotten.into})
		}
	}
	return options
}

// forgottenChoices lists options that accelerate accepts and preflight ignores, with the values
// that accelerate allows.
var forgottenChoices = map[string][]string{
	"--mixed_precision":               {"no", "fp16", "bf16", "fp8"},
	"--fsdp_version":                  {"1", "2"},
	"--fp8_backend":                   {"ao", "te", "msamp"},
	"--fp8_format":                    {"HYBRID", "E4M3", "E5M2"},
	"--fp8_amax_compute_algo":         {"max", "most_recent"},
	"--fp8_opt_level":                 {"O1", "O2"},
	"--parallelism_config_cp_backend": {"torch"},
	"--parallelism_config_sp_backend": {"deepspeed"},
}

const (
	forgottenFlags = `--enable_cpu_affinity --dynamo_use_fullgraph --dynamo_use_dynamic --dynamo_use_regional_compilation
		--use_parallelism_config --tpu_cluster --no_tpu_cluster --tpu_use_sudo --downcast_bf16 --fp8_use_autocast_during_eval --debug`
	forgottenNumbers = `--num_cpu_threads_per_process --max_restarts --zero_stage --gradient_accumulation_steps --fsdp_min_num_params
		--megatron_lm_tp_degree --megatron_lm_decoder_last_pipeline_num_layers --megatron_lm_pp_degree --megatron_lm_num_micro_batches
		--megatron_lm_recompute_num_layers --megatron_lm_expert_model_parallel_size --megatron_lm_context_parallel_size
		--megatron_lm_expert_tensor_parallel_size --fp8_margin --fp8_interval --fp8_amax_history_len --parallelism_config_dp_replicate_size
		--parallelism_config_dp_shard_size --parallelism_config_tp_size --parallelism_config_cp_size --parallelism_config_sp_size`
	forgottenFloats = `--monitor_interval --gradient_clipping --megatron_lm_gradient_clipping --megatron_lm_attention_dropout --megatron_lm_hidden_dropout`
	forgottenTexts  = `--log_dir --role --vm --env --main_training_function --dynamo_backend --dynamo_mode --offload_optimizer_device --offload_param_device
		--offload_optimizer_nvme_path --offload_param_nvme_path --zero3_init_flag --zero3_save_16bit_model --deepspeed_moe_layer_cls_names
		--fsdp_offload_params --fsdp_sharding_strategy --fsdp_reshard_after_forward --fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap
		--fsdp_backward_prefetch --fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params --fsdp_cpu_ram_efficient_loading
		--fsdp_sync_module_states --fsdp_activation_checkpointing --megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim
		--megatron_lm_eod_mask_loss --megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim --megatron_lm_optimizer_cpu_offload
		--megatron_lm_use_precision_aware_optimizer --megatron_lm_sequence_parallelism --megatron_lm_recompute_activations
		--megatron_lm_use_distributed_optimizer --megatron_lm_recompute_granularity --megatron_lm_recompute_method
		--megatron_lm_attention_backend --megatron_lm_attention_softmax_in_fp32 --megatron_lm_calculate_per_token_loss
		--megatron_lm_use_rotary_position_embeddings --fp8_override_linear_precision --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim
		--aws_access_key_id --aws_secret_access_key --parallelism_config_cp_comm_strategy --parallelism_config_sp_seq_length
		--parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation`
)
