// SPDX-License-Identifier: Apache-2.0

package dsconfig

import "strings"

type setting struct {
	name string
	kind kind
	// since and until are the release that first knows the key and the one that
	// no longer does; "" is 0.7.0 and none.
	since, until string
	// field is pydantic's own name for a key that has an alias, which it takes as well.
	field string
}

type section struct {
	settings []setting
	// model is the pydantic class that refuses what it does not know, from the
	// release strict on ("" is 0.7.0). Without a model what is not known is ignored.
	model, strict string
	// monitor is a section that has been read, since 0.8.1, as one field of a class
	// for all monitors.
	monitor bool
}

// table is settings of which a row may name several that are alike.
func table(rows []setting) (settings []setting) {
	for _, row := range rows {
		for name := range strings.FieldsSeq(row.name) {
			row.name = name
			settings = append(settings, row)
		}
	}
	return settings
}

// batchKeys are the three numbers of which two make the third.
var batchKeys = []string{"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}

// topLevel is every key that some release reads from the top of the file; what
// else stands there is silently ignored.
//
// Source: deepspeed/runtime/config.py and constants.py and what they import,
// every release from 0.7.0 to 0.19.8.
var topLevel = section{settings: table([]setting{
	{name: "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps"},
	{name: "managed_gradient_accumulation", since: "0.19.4"},
	{name: "optimizer", kind: below(&optimizerSection)},
	{name: "scheduler", kind: below(&schedulerSection)},
	{name: "zero_optimization", kind: below(&zeroSection)},
	{name: "activation_checkpointing", kind: below(&activationSection)},
	{name: "comms_logger", kind: below(&commsSection)},
	{name: "tensorboard", kind: below(&tensorboardSection)},
	{name: "comet", kind: below(&cometSection), since: "0.14.3"},
	{name: "wandb", kind: below(&wandbSection)},
	{name: "csv_monitor", kind: below(&csvSection)},
	{name: "fp16", kind: below(&fp16Section)},
	{name: "bf16", kind: below(&bf16Section)},
	{name: "bfloat16", kind: below(&bf16Section)},
	{name: "torch_autocast", since: "0.17.2"},
	{name: "amp", until: "0.19.8"},
	{name: "flops_profiler", kind: below(&flopsSection)},
	{name: "hybrid_engine", kind: below(&hybridSection), since: "0.9.0"},
	{name: "aio", kind: below(&aioSection)},
	{name: "checkpoint", kind: below(&checkpointSection)},
	{name: "data_types", kind: below(&dataTypesSection), since: "0.7.6"},
	{name: "weight_quantization", kind: below(&weightSection), since: "0.10.3"},
	{name: "compile", kind: below(&compileSection), since: "0.16.6"},
	{name: "compile", since: "0.13.2", until: "0.14.4"},
	{name: "timers", since: "0.14.3"},
	{name: "tensor_parallel", kind: below(&tensorParallelSection), since: "0.16.4"},
	{name: "expert_parallel", since: "0.19.2"},
	{name: "sequence_parallel_size", since: "0.15.0"},
	{name: "datastates_ckpt", since: "0.18.1"},
	{name: "zero_allow_untested_optimizer"},
	{name: "zero_force_ds_cpu_optimizer", since: "0.8.3"},
	{name: "allgather_size steps_per_print dump_state"},
	{name: "disable_python_gc", since: "0.19.8"},
	{name: "disable_allgather communication_data_type"},
	{name: "seq_parallel_comm_data_type", since: "0.11.2", until: "0.16.5"},
	{name: "seq_parallel_communication_data_type", since: "0.16.5"},
	{name: "prescale_gradients gradient_predivide_factor"},
	{name: "gradient_allreduce_op", since: "0.19.6"},
	{name: "gradient_clipping wall_clock_breakdown memory_breakdown autotuning"},
	{name: "use_data_before_expert_parallelism", since: "0.12.4"},
	{name: "pipeline"},
	{name: "data_efficiency", since: "0.8.0"},
	{name: "dataloader_drop_last"},
	{name: "log_level", since: "0.19.3"},
	{name: "vocabulary_size"},
	{name: "nebula compression_training quantize_training sparse_attention", until: "0.19.7"},
	{name: "sparse_gradients eigenvalue elasticity", until: "0.19.8"},
	{name: "graph_harvesting", since: "0.12.6", until: "0.19.8"},
	{name: "curriculum_learning progressive_layer_drop", until: "0.19.8"},
})}

var optimizerSection = section{settings: table([]setting{{name: "type params legacy_fusion"}})}

var schedulerSection = section{settings: table([]setting{{name: "type params"}})}

var activationSection = section{settings: table([]setting{
	{name: "partition_activations number_checkpoints contiguous_memory_optimization synchronize_checkpoint_boundary profile"},
	{name: "cpu_checkpointing"},
})}

var flopsSection = section{settings: table([]setting{
	{name: "enabled"},
	{name: "recompute_fwd_factor", since: "0.9.3"},
	{name: "profile_step module_depth top_modules detailed output_file"},
})}

var aioSection = section{settings: table([]setting{
	{name: "block_size queue_depth"},
	{name: "thread_count", until: "0.16.4"},
	{name: "intra_op_parallelism", since: "0.16.4"},
	{name: "single_submit overlap_events"},
	{name: "use_gds", since: "0.15.0"},
})}

var checkpointSection = section{settings: table([]setting{
	{name: "tag_validation load_universal"},
	{name: "use_node_local_storage", since: "0.7.5"},
	{name: "parallel_write", since: "0.7.4"},
	{name: "checkpoint_serialization writer", since: "0.17.1"},
})}

var dataTypesSection = section{settings: table([]setting{
	{name: "grad_accum_dtype"},
	{name: "param_dtype buffer_dtype", since: "0.19.2"},
	{name: "keep_in_fp32_modules", since: "0.19.8"},
})}

// removedSetting is a key that was taken out of DeepSpeed and is refused since.
type removedSetting struct {
	section, name string
	refused       string // the release that refuses it
	original      string // how its refusal begins
}

// removedSettings are in DeepSpeed's order.
//
// Source: deepspeed/runtime/config.py, _reject_removed_config_keys, 0.19.7 and 0.19.8.
var removedSettings = []removedSetting{
	{"", "nebula", "0.19.7", "Nebula checkpointing has been removed."},
	{"", "compression_training", "0.19.7", "The DeepSpeed compression library has been removed."},
	{"", "amp", "0.19.8", "NVIDIA Apex AMP integration has been removed."},
	{"", "quantize_training", "0.19.7", "Mixture-of-Quantization (MoQ) / 'quantize_training' has been removed."},
	{"", "sparse_gradients", "0.19.8", "Sparse compression of dense torch.nn.Embedding gradients has been removed."},
	{"", "eigenvalue", "0.19.8", "Eigenvalue-based Mixture-of-Quantization (MoQ) has been removed"},
	{"", "sparse_attention", "0.19.7", "DeepSpeed Sparse Attention has been removed"},
	{"", "elasticity", "0.19.8", "Elastic training has been removed"},
	{"", "graph_harvesting", "0.19.8", "Graph harvesting has been removed"},
	{"", "curriculum_learning", "0.19.8", "Legacy top-level 'curriculum_learning' has been removed."},
	{"", "progressive_layer_drop", "0.19.8", "Progressive Layer Dropping has been removed"},
	{"zero_optimization", "mics_shard_size", "0.19.7", "MiCS ZeRO-3 sharding has been removed"},
	{"zero_optimization", "mics_hierarchical_params_gather", "0.19.7", "MiCS ZeRO-3 sharding has been removed"},
	{"zero_optimization", "zeropp_loco_param", "0.19.8", "LoCo-Zero++ has been removed"},
}

// The sections that DeepSpeed reads by pydantic classes, field by field in their
// order.
//
// Source: deepspeed/runtime/zero/config.py, zero/offload_config.py,
// zero/leaf_module_config.py, zenflow/zenflow_config.py, precision_config.py,
// monitor/config.py, comm/config.py, compile/config.py, utils/config.py,
// inference/config.py and tensor_parallel/config.py, every release from 0.7.0 to
// 0.19.8.

var zeroSection = section{model: "DeepSpeedZeroConfig", settings: table([]setting{
	{name: "stage", kind: stage},
	{name: "contiguous_gradients reduce_scatter", kind: flag},
	{name: "reduce_bucket_size", kind: wholeFrom0, until: "0.19.6"},
	{name: "reduce_bucket_size", kind: wholeAbove0, since: "0.19.6"},
	{name: "use_multi_rank_bucket_allreduce", kind: flag, since: "0.12.4"},
	{name: "allgather_partitions", kind: flag},
	{name: "allgather_bucket_size", kind: wholeFrom0},
	{name: "overlap_comm", kind: flag.orNone()},
	{name: "compute_grad_norm", kind: flag, since: "0.19.7"},
	{name: "load_from_fp32_weights elastic_checkpoint", kind: flag},
	{name: "offload_param", kind: below(&offloadParamSection).orNone()},
	{name: "offload_optimizer", kind: below(&offloadOptimizerSection).orNone()},
	{name: "zenflow", kind: below(&zenflowSection).orNone(), since: "0.17.5"},
	{name: "sub_group_size", kind: wholeFrom0},
	{name: "cpu_offload_param cpu_offload_use_pin_memory cpu_offload", kind: flag.orNone()},
	{name: "stage3_prefetch_bucket_size", field: "prefetch_bucket_size", kind: wholeFrom0},
	{name: "stage3_param_persistence_threshold", field: "param_persistence_threshold", kind: wholeFrom0},
	{name: "stage3_model_persistence_threshold", field: "model_persistence_threshold", kind: wholeFrom0},
	{name: "stage3_max_live_parameters", field: "max_live_parameters", kind: wholeFrom0},
	{name: "stage3_max_reuse_distance", field: "max_reuse_distance", kind: wholeFrom0},
	{name: "stage3_gather_16bit_weights_on_model_save", field: "gather_16bit_weights_on_model_save", kind: flag},
	{name: "stage3_module_granularity_threshold", field: "module_granularity_threshold", kind: whole, since: "0.16.0"},
	{name: "stage3_use_all_reduce_for_fetch_params", field: "use_all_reduce_for_fetch_params", kind: flag, since: "0.14.3"},
	{name: "stage3_allgather_sequential", field: "allgather_sequential", kind: flag, since: "0.18.5"},
	{name: "stage3_gather_fp16_weights_on_model_save ignore_unused_parameters legacy_stage1 round_robin_gradients", kind: flag},
	{name: "parameter_alignment", kind: flag, since: "0.19.7"},
	{name: "zero_hpz_partition_size", kind: wholeFrom0, since: "0.10.0"},
	{name: "zero_quantized_weights", kind: flag, since: "0.10.0"},
	{name: "zero_quantized_nontrainable_weights", kind: flag, since: "0.10.2"},
	{name: "zero_quantized_gradients", kind: flag, since: "0.10.0"},
	{name: "zeropp_loco_param", kind: dict.orNone(), since: "0.16.2", until: "0.19.8"},
	{name: "mics_shard_size", kind: whole, since: "0.9.2", until: "0.19.7"},
	{name: "mics_hierarchical_params_gather", kind: flag, since: "0.9.2", until: "0.19.7"},
	{name: "memory_efficient_linear", kind: flag, since: "0.9.0"},
	{name: "pipeline_loading_checkpoint override_module_apply", kind: flag, since: "0.10.1"},
	{name: "log_trace_cache_warnings", kind: flag, since: "0.16.4"},
	{name: "enable_sanity_checks", kind: flag, since: "0.17.6"},
	{name: "save_muon_momentum_buffer_in_memory", kind: flag, since: "0.18.9"},
	{name: "leaf_module", since: "0.18.0"},
})}

var offloadParamSection = section{model: "DeepSpeedZeroOffloadParamConfig", settings: table([]setting{
	{name: "device", kind: device},
	{name: "nvme_path", kind: filePath.orNone()},
	{name: "buffer_count buffer_size max_in_cpu", kind: wholeFrom0},
	{name: "pin_memory", kind: flag},
})}

var offloadOptimizerSection = section{model: "DeepSpeedZeroOffloadOptimizerConfig", settings: table([]setting{
	{name: "device", kind: device},
	{name: "nvme_path", kind: filePath.orNone()},
	{name: "buffer_count", kind: wholeFrom0},
	{name: "pin_memory pipeline_read pipeline_write fast_init", kind: flag},
	{name: "ratio", kind: share, since: "0.12.3"},
	{name: "super_offload", kind: flag, since: "0.18.0"},
	{name: "cpuadam_cores_perc", kind: share, since: "0.18.0"},
})}

// zenflowSection leaves update intervals to DeepSpeed: they are numbers or "auto".
var zenflowSection = section{model: "ZenFlowConfig", settings: table([]setting{
	{name: "topk_ratio", kind: share, until: "0.19.6"},
	{name: "topk_ratio", kind: shareWithin, since: "0.19.6"},
	{name: "select_strategy", kind: text},
	{name: "select_interval update_interval"},
	{name: "overlap_step offload", kind: flag},
	{name: "auto_ratio", kind: share},
	{name: "full_warm_up_rounds", kind: whole},
	{name: "pt_reserved_cores_perc", kind: share, since: "0.17.6"},
	{name: "steps_per_epoch", kind: whole.orNone()},
})}

var fp16Section = section{model: "DeepSpeedFP16Config", strict: "0.17.1", settings: table([]setting{
	{name: "enabled auto_cast", kind: flag},
	{name: "loss_scale", kind: real, until: "0.18.8"},
	{name: "loss_scale", kind: lossScale, since: "0.18.8"},
	{name: "initial_scale_power", kind: whole},
	{name: "loss_scale_window", kind: whole, until: "0.19.3"},
	{name: "loss_scale_window", kind: checkScaleStep("loss_scale_window"), since: "0.19.3"},
	{name: "hysteresis", kind: whole},
	{name: "consecutive_hysteresis", kind: flag, since: "0.9.3"},
	{name: "min_loss_scale", kind: whole, until: "0.19.3"},
	{name: "min_loss_scale", kind: checkScaleStep("min_loss_scale"), since: "0.19.3"},
	{name: "fp16_master_weights_and_grads", kind: flag},
})}

var bf16Section = section{model: "DeepSpeedBF16Config", strict: "0.17.1", settings: table([]setting{
	{name: "enabled", kind: flag},
	{name: "immediate_grad_update", kind: flag, since: "0.13.3"},
	{name: "check_grad_overflow", kind: flag, since: "0.17.1"},
	{name: "bf16_master_weights_and_grads bf16_optimizer_states", kind: flag, since: "0.18.3"},
})}

var commsSection = section{model: "CommsLoggerConfig", settings: table([]setting{
	{name: "enabled prof_all", kind: flag},
	{name: "prof_ops", kind: list},
	{name: "verbose debug", kind: flag},
})}

var tensorboardSection = section{model: "TensorBoardConfig", monitor: true, settings: table([]setting{
	{name: "enabled", kind: flag},
	{name: "output_path job_name", kind: text},
})}

var csvSection = section{model: "CSVConfig", monitor: true, settings: tensorboardSection.settings}

var wandbSection = section{model: "WandbConfig", monitor: true, settings: table([]setting{
	{name: "enabled", kind: flag},
	{name: "group team", kind: text.orNone()},
	{name: "project", kind: text},
})}

var cometSection = section{model: "CometConfig", monitor: true, settings: table([]setting{
	{name: "enabled", kind: flag},
	{name: "samples_log_interval", kind: whole},
	{name: "project workspace api_key experiment_name experiment_key", kind: text.orNone()},
	{name: "online", kind: flag.orNone()},
	{name: "mode", kind: text.orNone()},
})}

var hybridSection = section{model: "HybridEngineConfig", settings: table([]setting{
	{name: "enabled", kind: flag},
	{name: "max_out_tokens", kind: whole, until: "0.19.7"},
	{name: "max_out_tokens", kind: wholeAbove0, since: "0.19.7"},
	{name: "inference_tp_size", kind: whole},
	{name: "release_inference_cache pin_parameters", kind: flag},
	{name: "tp_gather_partition_size", kind: whole},
	{name: "enable_cuda_graph", kind: flag, since: "0.19.6"},
})}

// compileSection leaves the names of the passes to DeepSpeed.
var compileSection = section{model: "CompileConfig", settings: table([]setting{
	{name: "deepcompile free_activation", kind: flag},
	{name: "free_activation_threshold", kind: whole, since: "0.18.0"},
	{name: "offload_activation", kind: flag},
	{name: "offload_activation_pin_memory", kind: flag, since: "0.19.6"},
	{name: "offload_opt_states double_buffer symmetric_memory debug_log offload_parameters sync_before_reduce", kind: flag},
	{name: "sync_after_reduce sync_before_allgather sync_after_allgather", kind: flag},
	{name: "keep_int_input_tensors keep_all_input_tensors", kind: flag, since: "0.17.2"},
	{name: "passes", since: "0.18.9"},
	{name: "autoep_non_moe", kind: flag, since: "0.19.8"},
})}

var tensorParallelSection = section{model: "TPTrainingConfig", settings: table([]setting{
	{name: "dtype"},
	{name: "autotp_size", kind: whole},
	{name: "tp_overlap_comm", kind: flag, since: "0.16.6"},
	{name: "vocab_parallel_lm_head", kind: flag.orNone(), since: "0.19.8"},
	{name: "vocab_parallel_ce_backend", since: "0.19.8"},
	{name: "tp", field: "tensor_parallel", kind: below(&tensorParallelSize)},
	{name: "injection_policy_tuple"},
	{name: "partition_config", kind: dict.orNone(), since: "0.18.6"},
	{name: "preset_model", kind: text.orNone(), since: "0.18.6"},
	{name: "keep_module_on_host", kind: flag},
	{name: "kernel_inject", field: "replace_with_kernel_inject", kind: flag},
})}

var tensorParallelSize = section{model: "TPConfig", settings: table([]setting{
	{name: "tp_size tp_grain_size", kind: whole},
	{name: "mpu tp_group"},
})}

var weightSection = section{model: "WeightQuantConfig", settings: table([]setting{
	{name: "enabled", kind: flag, since: "0.15.0"},
	{name: "quantized_initialization post_init_quant", kind: dict},
})}
