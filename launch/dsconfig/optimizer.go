// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"slices"
	"strings"

	"preflight/hostfile"
)

// optimizer is one that DeepSpeed makes by its name in the configuration.
type optimizer struct {
	name         string // in small letters; DeepSpeed does not mind the case
	since, until string
	// op computes it on the GPU and cpuOp where its states are offloaded, "" for
	// torch's own.
	op, cpuOp string
	zero      string // the release from which ZeRO takes it, "" for none
	refuses   string // what it says to ZeRO, where it refuses it altogether
}

// optimizers are DeepSpeed's own.
//
// Source: deepspeed/runtime/engine.py, _configure_basic_optimizer, and
// zero/utils.py, ZERO_SUPPORTED_OPTIMIZERS, every release from 0.7.0 to 0.19.8.
var optimizers = []optimizer{
	{name: "adam", op: "fused_adam", cpuOp: "cpu_adam", zero: "0.7.0"},
	{name: "adamw", op: "fused_adam", cpuOp: "cpu_adam", zero: "0.7.0"},
	{name: "adagrad", cpuOp: "cpu_adagrad", zero: "0.9.2"},
	{name: "lamb", op: "fused_lamb", cpuOp: "fused_lamb"},
	{name: "lion", since: "0.11.0", op: "fused_lion", cpuOp: "cpu_lion", zero: "0.11.0"},
	{name: "muon", since: "0.17.6", zero: "0.17.6"},
	{name: "muadam", since: "0.10.2", zero: "0.10.2"},
	{name: "muadamw", since: "0.10.2", zero: "0.10.2"},
	{name: "musgd", since: "0.10.2"},
	{name: "onebitadam", until: "0.19.8", refuses: "1bit-Adam is not compatible with ZeRO"},
	{name: "zerooneadam", until: "0.19.8", refuses: "0/1 Adam is not compatible with ZeRO"},
	{name: "onebitlamb", until: "0.19.8", refuses: "1bit-Lamb is not compatible with ZeRO"},
}

// torchOptimizers are those of torch.optim that are no one of DeepSpeed's, which
// takes them by their very name.
//
// Source: pytorch/pytorch, torch/optim/__init__.py, 2.15.
var torchOptimizers = []string{
	"ASGD", "Adadelta", "Adafactor", "Adamax", "LBFGS", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam",
}

// optimizer judges the optimizer by its name; a script may hand DeepSpeed one of
// its own instead, and then none of this happens.
func (r *reader) optimizer() {
	section := r.root.object("optimizer")
	name, isText := section.get("type").(string)
	if !isText || name == "auto" {
		return
	}
	const unless = ", unless the script brings an optimizer of its own"
	if section.object("params").has("max_grad_norm") {
		r.fatal("optimizer.params.max_grad_norm",
			"ValueError: 'max_grad_norm' is not supported as an optimizer parameter, please switch to using the deepspeed parameter 'gradient_clipping'",
			"max_grad_norm is no parameter of an optimizer for DeepSpeed: write gradient_clipping at the top of the file instead")
	}
	made, known := r.made(name)
	zero := r.config.ZeroStage > 0
	switch {
	case !known && !slices.Contains(torchOptimizers, name):
		r.fatal("optimizer.type", "AssertionError: "+name+" is not a supported DeepSpeed Optimizer",
			"optimizer.type %q is neither one of DeepSpeed's nor of torch.optim's, whose names mind the case%s", name, unless)
	case zero && made.refuses != "":
		r.fatal("optimizer.type", "AssertionError: "+made.refuses, "%s does not work with ZeRO: take another optimizer, or stage 0", name)
	case zero && (made.zero == "" || !r.since(made.zero)) && r.root.values["zero_allow_untested_optimizer"] != true:
		r.fatal("optimizer.type",
			`AssertionError: You are using an untested ZeRO Optimizer. Please add <"zero_allow_untested_optimizer": true> in the configuration file to use it.`,
			`%s is untested with ZeRO: add "zero_allow_untested_optimizer": true, or take Adam%s`, name, unless)
	}
}

func (r *reader) made(name string) (optimizer, bool) {
	for _, o := range optimizers {
		if o.name == strings.ToLower(name) && hostfile.Within(r.release, o.since, o.until) {
			return o, true
		}
	}
	return optimizer{}, false
}

// ops are what DeepSpeed compiles when it first needs it, where the installed
// package does not bring it compiled.
//
// Source: deepspeed/runtime/engine.py, zero/, swap_tensor/ and op_builder/, every
// release from 0.7.0 to 0.19.8.
func (r *reader) ops() {
	var ops []string
	need := func(needed bool, op string) {
		if needed && op != "" && !slices.Contains(ops, op) {
			ops = append(ops, op)
		}
	}
	need(hostfile.Before(r.release, "0.9.5"), "utils")
	offloaded, nvme := false, false
	for _, place := range r.config.Offload {
		offloaded = offloaded || place.What == "optimizer"
		nvme = nvme || place.Device == "nvme"
	}
	need(true, r.optimizerOp(offloaded))
	need(nvme, "async_io")
	need(nvme && r.since("0.19.5"), "pin_memory")
	for _, key := range []string{"zero_quantized_weights", "zero_quantized_nontrainable_weights", "zero_quantized_gradients"} {
		need(r.root.object("zero_optimization").get(key) == true, "quantizer")
	}
	need(r.root.object("aio").get("use_gds") == true && r.since("0.15.0"), "gds")
	need(r.root.object("sparse_attention") != nil && hostfile.Before(r.release, "0.19.7"), "sparse_attn")
	r.config.Ops = ops
}

// optimizerOp is the op that the optimizer computes with. Without an optimizer
// in the file an offloaded one must be DeepSpeed's for the CPU, which the script
// or accelerate then brings.
func (r *reader) optimizerOp(offloaded bool) string {
	section := r.root.object("optimizer")
	if section == nil {
		if offloaded && r.root.values["zero_force_ds_cpu_optimizer"] != false {
			return "cpu_adam"
		}
		return ""
	}
	if section.object("params").get("torch_adam") == true {
		return ""
	}
	name, _ := section.values["type"].(string)
	made, _ := r.made(name)
	if offloaded {
		return made.cpuOp
	}
	return made.op
}
