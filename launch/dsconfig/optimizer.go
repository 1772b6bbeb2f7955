// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"slices"
	"strings"

	"preflight/hostfile"
)

// optimizer checks the optimizer's section, depending on its name. DeepSpeed ignores the section if
// the script creates its own optimizer.
func (r *reader) optimizer() {
	section := r.root.object("optimizer")
	name, isText := section.get("type").(string)
	if !isText || name == "auto" {
		return
	}
	const unless = ", unless the script creates its own optimizer"
	if section.object("params").has("max_grad_norm") {
		r.fatal("optimizer.params.max_grad_norm",
			"ValueError: 'max_grad_norm' is not supported as an optimizer parameter, please switch to using the deepspeed parameter 'gradient_clipping'",
			"DeepSpeed accepts no max_grad_norm for an optimizer: write gradient_clipping at the top level of the file instead")
	}
	made, isKnown := r.made(name)
	zero := r.config.ZeroStage > 0
	switch {
	case !isKnown && !slices.Contains(tables().TorchOptimizers, name):
		r.fatal("optimizer.type", "AssertionError: "+name+" is not a supported DeepSpeed Optimizer",
			"optimizer.type %q is neither an optimizer of DeepSpeed nor of torch.optim (names are case-sensitive)%s", name, unless)
	case zero && made.Refuses != "":
		r.fatal("optimizer.type", "AssertionError: "+made.Refuses, "%s does not work with ZeRO: use another optimizer, or stage 0", name)
	case zero && (made.Zero == "" || !r.since(made.Zero)) && r.root.values["zero_allow_untested_optimizer"] != true:
		r.fatal("optimizer.type",
			`AssertionError: You are using an untested ZeRO Optimizer. Please add <"zero_allow_untested_optimizer": true> in the configuration file to use it.`,
			`%s is untested with ZeRO: add "zero_allow_untested_optimizer": true, or use Adam%s`, name, unless)
	}
}

func (r *reader) made(name string) (optimizer, bool) {
	for _, o := range tables().Optimizers {
		if o.Name == strings.ToLower(name) && hostfile.Within(r.release, o.Since, o.Until) {
			return o, true
		}
	}
	return optimizer{}, false
}

// ops records the extensions that DeepSpeed compiles on first use, unless the installed package
// already contains them compiled.
//
// Source: deepspeed/runtime/engine.py, zero/, swap_tensor/ and op_builder/, every release from
// 0.7.0 to 0.19.8.
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

// optimizerOp returns the extension that the optimizer needs. If the file has no optimizer, an
// offloaded optimizer must be DeepSpeed's CPU optimizer, which the script or accelerate creates.
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
		return made.CPUOp
	}
	return made.Op
}
