package launch

// setting is one key of a DeepSpeed configuration.
type setting struct {
	name string
	kind kind
	// since and until are the release that first knows the key and the one that
	// no longer does; "" is 0.7.0 and none.
	since, until string
	// field is pydantic's own name for a key that has an alias, which it takes as well.
	field string
}

// section is an object of the configuration.
type section struct {
	settings []setting
	// model is the pydantic class that refuses what it does not know, from the
	// release strict on ("" is 0.7.0). Without a model what is not known is ignored.
	model, strict string
	// monitor is a section that has been read, since 0.8.1, as one field of a class
	// for all monitors.
	monitor bool
}

// batchKeys are the three numbers of which two make the third.
var batchKeys = []string{"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}

// topLevel is every key that some release reads from the top of the file; what
// else stands there is silently ignored.
//
// Source: deepspeed/runtime/config.py and constants.py and what they import,
// every release from 0.7.0 to 0.19.8.
var topLevel = section{settings: []setting{
	{name: "train_batch_size"},
	{name: "train_micro_batch_size_per_gpu"},
	{name: "gradient_accumulation_steps"},
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
	{name: "allgather_size"},
	{name: "steps_per_print"},
	{name: "dump_state"},
	{name: "disable_python_gc", since: "0.19.8"},
	{name: "disable_allgather"},
	{name: "communication_data_type"},
	{name: "seq_parallel_comm_data_type", since: "0.11.2", until: "0.16.5"},
	{name: "seq_parallel_communication_data_type", since: "0.16.5"},
	{name: "prescale_gradients"},
	{name: "gradient_predivide_factor"},
	{name: "gradient_allreduce_op", since: "0.19.6"},
	{name: "gradient_clipping"},
	{name: "wall_clock_breakdown"},
	{name: "memory_breakdown"},
	{name: "autotuning"},
	{name: "use_data_before_expert_parallelism", since: "0.12.4"},
	{name: "pipeline"},
	{name: "data_efficiency", since: "0.8.0"},
	{name: "dataloader_drop_last"},
	{name: "log_level", since: "0.19.3"},
	{name: "vocabulary_size"},
	{name: "nebula", until: "0.19.7"},
	{name: "compression_training", until: "0.19.7"},
	{name: "quantize_training", until: "0.19.7"},
	{name: "sparse_attention", until: "0.19.7"},
	{name: "sparse_gradients", until: "0.19.8"},
	{name: "eigenvalue", until: "0.19.8"},
	{name: "elasticity", until: "0.19.8"},
	{name: "graph_harvesting", since: "0.12.6", until: "0.19.8"},
	{name: "curriculum_learning", until: "0.19.8"},
	{name: "progressive_layer_drop", until: "0.19.8"},
}}

var optimizerSection = section{settings: []setting{{name: "type"}, {name: "params"}, {name: "legacy_fusion"}}}

var schedulerSection = section{settings: []setting{{name: "type"}, {name: "params"}}}

var activationSection = section{settings: []setting{
	{name: "partition_activations"}, {name: "number_checkpoints"}, {name: "contiguous_memory_optimization"},
	{name: "synchronize_checkpoint_boundary"}, {name: "profile"}, {name: "cpu_checkpointing"},
}}

var flopsSection = section{settings: []setting{
	{name: "enabled"}, {name: "recompute_fwd_factor", since: "0.9.3"}, {name: "profile_step"}, {name: "module_depth"}, {name: "top_modules"},
	{name: "detailed"}, {name: "output_file"},
}}

var aioSection = section{settings: []setting{
	{name: "block_size"}, {name: "queue_depth"}, {name: "thread_count", until: "0.16.4"}, {name: "intra_op_parallelism", since: "0.16.4"},
	{name: "single_submit"}, {name: "overlap_events"}, {name: "use_gds", since: "0.15.0"},
}}

var checkpointSection = section{settings: []setting{
	{name: "tag_validation"}, {name: "load_universal"}, {name: "use_node_local_storage", since: "0.7.5"}, {name: "parallel_write", since: "0.7.4"},
	{name: "checkpoint_serialization", since: "0.17.1"}, {name: "writer", since: "0.17.1"},
}}

var dataTypesSection = section{settings: []setting{
	{name: "grad_accum_dtype"}, {name: "param_dtype", since: "0.19.2"}, {name: "buffer_dtype", since: "0.19.2"},
	{name: "keep_in_fp32_modules", since: "0.19.8"},
}}

// removedSetting is a key that was taken out of DeepSpeed and is refused since.
type removedSetting struct {
	section, name string
	refused       string // the release that refuses it
	said          string // how its refusal begins
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
