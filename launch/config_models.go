package launch

// The sections that DeepSpeed reads by pydantic classes, field by field in their
// order.
//
// Source: deepspeed/runtime/zero/config.py, zero/offload_config.py,
// zero/leaf_module_config.py, zenflow/zenflow_config.py, precision_config.py,
// monitor/config.py, comm/config.py, compile/config.py, utils/config.py,
// inference/config.py and tensor_parallel/config.py, every release from 0.7.0 to
// 0.19.8.

var zeroSection = section{model: "DeepSpeedZeroConfig", settings: []setting{
	{name: "stage", kind: stage},
	{name: "contiguous_gradients", kind: flag},
	{name: "reduce_scatter", kind: flag},
	{name: "reduce_bucket_size", kind: wholeFrom0, until: "0.19.6"},
	{name: "reduce_bucket_size", kind: wholeAbove0, since: "0.19.6"},
	{name: "use_multi_rank_bucket_allreduce", kind: flag, since: "0.12.4"},
	{name: "allgather_partitions", kind: flag},
	{name: "allgather_bucket_size", kind: wholeFrom0},
	{name: "overlap_comm", kind: flag.orNone()},
	{name: "compute_grad_norm", kind: flag, since: "0.19.7"},
	{name: "load_from_fp32_weights", kind: flag},
	{name: "elastic_checkpoint", kind: flag},
	{name: "offload_param", kind: below(&offloadParamSection).orNone()},
	{name: "offload_optimizer", kind: below(&offloadOptimizerSection).orNone()},
	{name: "zenflow", kind: below(&zenflowSection).orNone(), since: "0.17.5"},
	{name: "sub_group_size", kind: wholeFrom0},
	{name: "cpu_offload_param", kind: flag.orNone()},
	{name: "cpu_offload_use_pin_memory", kind: flag.orNone()},
	{name: "cpu_offload", kind: flag.orNone()},
	{name: "stage3_prefetch_bucket_size", field: "prefetch_bucket_size", kind: wholeFrom0},
	{name: "stage3_param_persistence_threshold", field: "param_persistence_threshold", kind: wholeFrom0},
	{name: "stage3_model_persistence_threshold", field: "model_persistence_threshold", kind: wholeFrom0},
	{name: "stage3_max_live_parameters", field: "max_live_parameters", kind: wholeFrom0},
	{name: "stage3_max_reuse_distance", field: "max_reuse_distance", kind: wholeFrom0},
	{name: "stage3_gather_16bit_weights_on_model_save", field: "gather_16bit_weights_on_model_save", kind: flag},
	{name: "stage3_module_granularity_threshold", field: "module_granularity_threshold", kind: whole, since: "0.16.0"},
	{name: "stage3_use_all_reduce_for_fetch_params", field: "use_all_reduce_for_fetch_params", kind: flag, since: "0.14.3"},
	{name: "stage3_allgather_sequential", field: "allgather_sequential", kind: flag, since: "0.18.5"},
	{name: "stage3_gather_fp16_weights_on_model_save", kind: flag},
	{name: "ignore_unused_parameters", kind: flag},
	{name: "legacy_stage1", kind: flag},
	{name: "round_robin_gradients", kind: flag},
	{name: "parameter_alignment", kind: flag, since: "0.19.7"},
	{name: "zero_hpz_partition_size", kind: wholeFrom0, since: "0.10.0"},
	{name: "zero_quantized_weights", kind: flag, since: "0.10.0"},
	{name: "zero_quantized_nontrainable_weights", kind: flag, since: "0.10.2"},
	{name: "zero_quantized_gradients", kind: flag, since: "0.10.0"},
	{name: "zeropp_loco_param", kind: dict.orNone(), since: "0.16.2", until: "0.19.8"},
	{name: "mics_shard_size", kind: whole, since: "0.9.2", until: "0.19.7"},
	{name: "mics_hierarchical_params_gather", kind: flag, since: "0.9.2", until: "0.19.7"},
	{name: "memory_efficient_linear", kind: flag, since: "0.9.0"},
	{name: "pipeline_loading_checkpoint", kind: flag, since: "0.10.1"},
	{name: "override_module_apply", kind: flag, since: "0.10.1"},
	{name: "log_trace_cache_warnings", kind: flag, since: "0.16.4"},
	{name: "enable_sanity_checks", kind: flag, since: "0.17.6"},
	{name: "save_muon_momentum_buffer_in_memory", kind: flag, since: "0.18.9"},
	{name: "leaf_module", since: "0.18.0"},
}}

var offloadParamSection = section{model: "DeepSpeedZeroOffloadParamConfig", settings: []setting{
	{name: "device", kind: device},
	{name: "nvme_path", kind: filePath.orNone()},
	{name: "buffer_count", kind: wholeFrom0},
	{name: "buffer_size", kind: wholeFrom0},
	{name: "max_in_cpu", kind: wholeFrom0},
	{name: "pin_memory", kind: flag},
}}

var offloadOptimizerSection = section{model: "DeepSpeedZeroOffloadOptimizerConfig", settings: []setting{
	{name: "device", kind: device},
	{name: "nvme_path", kind: filePath.orNone()},
	{name: "buffer_count", kind: wholeFrom0},
	{name: "pin_memory", kind: flag},
	{name: "pipeline_read", kind: flag},
	{name: "pipeline_write", kind: flag},
	{name: "fast_init", kind: flag},
	{name: "ratio", kind: share, since: "0.12.3"},
	{name: "super_offload", kind: flag, since: "0.18.0"},
	{name: "cpuadam_cores_perc", kind: share, since: "0.18.0"},
}}

// zenflowSection leaves update intervals to DeepSpeed: they are numbers or "auto".
var zenflowSection = section{model: "ZenFlowConfig", settings: []setting{
	{name: "topk_ratio", kind: share, until: "0.19.6"},
	{name: "topk_ratio", kind: shareWithin, since: "0.19.6"},
	{name: "select_strategy", kind: text},
	{name: "select_interval"},
	{name: "update_interval"},
	{name: "overlap_step", kind: flag},
	{name: "offload", kind: flag},
	{name: "auto_ratio", kind: share},
	{name: "full_warm_up_rounds", kind: whole},
	{name: "pt_reserved_cores_perc", kind: share, since: "0.17.6"},
	{name: "steps_per_epoch", kind: whole.orNone()},
}}

var fp16Section = section{model: "DeepSpeedFP16Config", strict: "0.17.1", settings: []setting{
	{name: "enabled", kind: flag},
	{name: "auto_cast", kind: flag},
	{name: "loss_scale", kind: real, until: "0.18.8"},
	{name: "loss_scale", kind: lossScale, since: "0.18.8"},
	{name: "initial_scale_power", kind: whole},
	{name: "loss_scale_window", kind: whole, until: "0.19.3"},
	{name: "loss_scale_window", kind: takesScaleStep("loss_scale_window"), since: "0.19.3"},
	{name: "hysteresis", kind: whole},
	{name: "consecutive_hysteresis", kind: flag, since: "0.9.3"},
	{name: "min_loss_scale", kind: whole, until: "0.19.3"},
	{name: "min_loss_scale", kind: takesScaleStep("min_loss_scale"), since: "0.19.3"},
	{name: "fp16_master_weights_and_grads", kind: flag},
}}

var bf16Section = section{model: "DeepSpeedBF16Config", strict: "0.17.1", settings: []setting{
	{name: "enabled", kind: flag},
	{name: "immediate_grad_update", kind: flag, since: "0.13.3"},
	{name: "check_grad_overflow", kind: flag, since: "0.17.1"},
	{name: "bf16_master_weights_and_grads", kind: flag, since: "0.18.3"},
	{name: "bf16_optimizer_states", kind: flag, since: "0.18.3"},
}}

var commsSection = section{model: "CommsLoggerConfig", settings: []setting{
	{name: "enabled", kind: flag},
	{name: "prof_all", kind: flag},
	{name: "prof_ops", kind: list},
	{name: "verbose", kind: flag},
	{name: "debug", kind: flag},
}}

var tensorboardSection = section{model: "TensorBoardConfig", monitor: true, settings: []setting{
	{name: "enabled", kind: flag},
	{name: "output_path", kind: text},
	{name: "job_name", kind: text},
}}

var csvSection = section{model: "CSVConfig", monitor: true, settings: tensorboardSection.settings}

var wandbSection = section{model: "WandbConfig", monitor: true, settings: []setting{
	{name: "enabled", kind: flag},
	{name: "group", kind: text.orNone()},
	{name: "team", kind: text.orNone()},
	{name: "project", kind: text},
}}

var cometSection = section{model: "CometConfig", monitor: true, settings: []setting{
	{name: "enabled", kind: flag},
	{name: "samples_log_interval", kind: whole},
	{name: "project", kind: text.orNone()},
	{name: "workspace", kind: text.orNone()},
	{name: "api_key", kind: text.orNone()},
	{name: "experiment_name", kind: text.orNone()},
	{name: "experiment_key", kind: text.orNone()},
	{name: "online", kind: flag.orNone()},
	{name: "mode", kind: text.orNone()},
}}

var hybridSection = section{model: "HybridEngineConfig", settings: []setting{
	{name: "enabled", kind: flag},
	{name: "max_out_tokens", kind: whole, until: "0.19.7"},
	{name: "max_out_tokens", kind: wholeAbove0, since: "0.19.7"},
	{name: "inference_tp_size", kind: whole},
	{name: "release_inference_cache", kind: flag},
	{name: "pin_parameters", kind: flag},
	{name: "tp_gather_partition_size", kind: whole},
	{name: "enable_cuda_graph", kind: flag, since: "0.19.6"},
}}

// compileSection leaves the names of the passes to DeepSpeed.
var compileSection = section{model: "CompileConfig", settings: []setting{
	{name: "deepcompile", kind: flag},
	{name: "free_activation", kind: flag},
	{name: "free_activation_threshold", kind: whole, since: "0.18.0"},
	{name: "offload_activation", kind: flag},
	{name: "offload_activation_pin_memory", kind: flag, since: "0.19.6"},
	{name: "offload_opt_states", kind: flag},
	{name: "double_buffer", kind: flag},
	{name: "symmetric_memory", kind: flag},
	{name: "debug_log", kind: flag},
	{name: "offload_parameters", kind: flag},
	{name: "sync_before_reduce", kind: flag},
	{name: "sync_after_reduce", kind: flag},
	{name: "sync_before_allgather", kind: flag},
	{name: "sync_after_allgather", kind: flag},
	{name: "keep_int_input_tensors", kind: flag, since: "0.17.2"},
	{name: "keep_all_input_tensors", kind: flag, since: "0.17.2"},
	{name: "passes", since: "0.18.9"},
	{name: "autoep_non_moe", kind: flag, since: "0.19.8"},
}}

var tensorParallelSection = section{model: "TPTrainingConfig", settings: []setting{
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
}}

var tensorParallelSize = section{model: "TPConfig", settings: []setting{
	{name: "tp_size", kind: whole},
	{name: "tp_grain_size", kind: whole},
	{name: "mpu"},
	{name: "tp_group"},
}}

var weightSection = section{model: "WeightQuantConfig", settings: []setting{
	{name: "enabled", kind: flag, since: "0.15.0"},
	{name: "quantized_initialization", kind: dict},
	{name: "post_init_quant", kind: dict},
}}
