package launch

import "strings"

// accelerateLaunch is how accelerate-launch calls itself.
const accelerateLaunch = "Accelerate launch command"

// accelerateArgs is what accelerate's parser fills in, and then its
// configuration, as far as it matters here. A number is nil until somebody gives
// it, a text "".
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

// options are accelerate's. Those that change nothing that is predicted are
// read and forgotten.
//
// Source: huggingface/accelerate 1.14, commands/launch.py, launch_command_parser,
// and commands/utils.py for the hyphens.
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

// What accelerate takes and preflight does not look at.
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
