package launch

import (
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
)

// dataTypes are the types that gradients are sent in.
func (r *configReader) dataTypes() {
	known := []string{"fp16", "bf16", "fp32"}
	if hostfile.Before(r.release, "0.14.1") {
		known[1] = "bfp16"
	}
	if given, isText := r.root.values["communication_data_type"].(string); isText && given != "auto" && !slices.Contains(known, strings.ToLower(given)) {
		r.fatal("communication_data_type",
			fmt.Sprintf("ValueError: Invalid communication_data_type. Supported data types: %s. Got: %s", pythonRepr(known), strings.ToLower(given)),
			"communication_data_type %q is not one of %s", given, strings.Join(known, ", "))
	}
	if given, isText := r.root.values["gradient_allreduce_op"].(string); r.since("0.19.6") && isText && !slices.Contains([]string{"mean", "sum"}, strings.ToLower(given)) {
		r.fatal("gradient_allreduce_op",
			fmt.Sprintf("ValueError: Invalid gradient_allreduce_op. Supported operations: ['mean', 'sum']. Got: %s", pythonRepr(strings.ToLower(given))),
			"gradient_allreduce_op %q is neither mean nor sum", given)
	}
}

// checkpoint refuses an unknown way to compare the tags of checkpoints.
func (r *configReader) checkpoint(section *object) {
	given, isText := section.values["tag_validation"].(string)
	if upper := strings.ToUpper(given); isText && !slices.Contains([]string{"WARN", "IGNORE", "FAIL"}, upper) {
		r.fatal("checkpoint.tag_validation",
			"deepspeed.runtime.config.DeepSpeedConfigError: Checkpoint config contains invalid tag_validation value of "+upper+", expecting one of ['WARN', 'IGNORE', 'FAIL']",
			"checkpoint.tag_validation %q is not one of Warn, Ignore, Fail", given)
	}
}

// profiler switches the wall clock on with itself, by an operator that texts and
// fractions do not have.
func (r *configReader) profiler(section *object) {
	switch value := section.values["enabled"].(type) {
	case bool, int:
	default:
		if section.has("enabled") {
			r.fatal("flops_profiler.enabled", fmt.Sprintf("TypeError: unsupported operand type(s) for |: 'bool' and '%s'", pythonType(value)),
				"flops_profiler.enabled must be true or false, without quotes")
		}
	}
}

// master are weights and gradients kept in half precision, which only some
// stages of ZeRO can; the rule was stage 2 alone up to 0.18.2.
func (r *configReader) master() {
	if r.failed("fp16") || r.failed("bf16") || r.failed("zero_optimization") {
		return
	}
	at := r.config.ZeroStage
	fp16, bf16 := r.root.object("fp16"), r.root.object("bf16")
	if bf16 == nil {
		bf16 = r.root.object("bfloat16")
	}
	switch key := "fp16.fp16_master_weights_and_grads"; {
	case !r.on(&fp16Section, fp16, "fp16_master_weights_and_grads"):
	case !r.since("0.18.3") && at != 2 && (r.isStrict(&fp16Section) || r.on(&fp16Section, fp16, "enabled")):
		r.fatal(key, "AssertionError: Fp16_master_weights_and_grads is only supported with ZeRO Stage 2 for now.", "%s needs ZeRO stage 2, and this is stage %d", key, at)
	case r.since("0.18.3") && at == 0:
		r.fatal(key, "AssertionError: Fp16_master_weights_and_grads is only supported with ZeRO Stage 1, 2, or 3.", "%s needs ZeRO, and this is stage 0", key)
	}
	if bf16 == nil || !r.since("0.18.3") {
		return
	}
	key := "bf16.bf16_master_weights_and_grads"
	master, states := r.on(&bf16Section, bf16, "bf16_master_weights_and_grads"), r.on(&bf16Section, bf16, "bf16_optimizer_states")
	switch {
	case master && at == 0:
		r.fatal(key, "AssertionError: Bf16_master_weights_and_grads is only supported with ZeRO Stage 1, 2, or 3.", "%s needs ZeRO, and this is stage 0", key)
	case states && at == 0:
		r.fatal("bf16.bf16_optimizer_states", "AssertionError: bf16_optimizer_states is only supported with ZeRO Stage 1, 2, or 3.",
			"bf16.bf16_optimizer_states needs ZeRO, and this is stage 0")
	case states && !master:
		r.fatal("bf16.bf16_optimizer_states", "AssertionError: bf16_optimizer_states requires bf16_master_weights_and_grads to be enabled.",
			"bf16.bf16_optimizer_states needs %s", key)
	}
}
