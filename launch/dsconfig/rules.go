// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
)

func (r *reader) dataTypes() {
	types := []string{"fp16", "bf16", "fp32"}
	if hostfile.Before(r.release, "0.14.1") {
		types[1] = "bfp16"
	}
	if given, isText := r.root.values["communication_data_type"].(string); isText && given != "auto" && !slices.Contains(types, strings.ToLower(given)) {
		r.fatal("communication_data_type",
			fmt.Sprintf("ValueError: Invalid communication_data_type. Supported data types: %s. Got: %s", pythonRepr(types), strings.ToLower(given)),
			"communication_data_type %q is not one of %s", given, strings.Join(types, ", "))
	}
	if given, isText := r.root.values["gradient_allreduce_op"].(string); r.since("0.19.6") && isText && !slices.Contains([]string{"mean", "sum"}, strings.ToLower(given)) {
		r.fatal("gradient_allreduce_op",
			fmt.Sprintf("ValueError: Invalid gradient_allreduce_op. Supported operations: ['mean', 'sum']. Got: %s", pythonRepr(strings.ToLower(given))),
			"gradient_allreduce_op %q is neither mean nor sum", given)
	}
}

func (r *reader) checkpoint(section *object) {
	given, isText := section.values["tag_validation"].(string)
	if upper := strings.ToUpper(given); isText && !slices.Contains([]string{"WARN", "IGNORE", "FAIL"}, upper) {
		r.fatal("checkpoint.tag_validation",
			"deepspeed.runtime.config.DeepSpeedConfigError: Checkpoint config contains invalid tag_validation value of "+upper+", expecting one of ['WARN', 'IGNORE', 'FAIL']",
			"checkpoint.tag_validation %q is not one of Warn, Ignore, Fail", given)
	}
}

// profiler checks that flops_profiler.enabled is a flag. DeepSpeed combines it with the wall clock
// setting by an operator that strings and fractions do not support.
func (r *reader) profiler(section *object) {
	switch value := section.values["enabled"].(type) {
	case bool, int:
	default:
		if section.has("enabled") {
			r.fatal("flops_profiler.enabled", fmt.Sprintf("TypeError: unsupported operand type(s) for |: 'bool' and '%s'", pythonType(value)),
				"flops_profiler.enabled must be true or false, without quotes")
		}
	}
}

// masterWeights checks master weights and gradients in half precision, which only some stages of
// ZeRO support. Until 0.18.2 only stage 2 supported them.
func (r *reader) masterWeights() {
	if r.failed("fp16") || r.failed("bf16") || r.failed("zero_optimization") {
		return
	}
	at := r.config.ZeroStage
	ofFP16, ofBF16 := sectionNamed("fp16"), sectionNamed("bf16")
	fp16, bf16 := r.root.object("fp16"), r.root.object("bf16")
	if bf16 == nil {
		bf16 = r.root.object("bfloat16")
	}
	switch key := "fp16.fp16_master_weights_and_grads"; {
	case !r.on(ofFP16, fp16, "fp16_master_weights_and_grads"):
	case !r.since("0.18.3") && at != 2 && (r.isStrict(ofFP16) || r.on(ofFP16, fp16, "enabled")):
		r.fatal(key, "AssertionError: Fp16_master_weights_and_grads is only supported with ZeRO Stage 2 for now.", "%s needs ZeRO stage 2, and this is stage %d", key, at)
	case r.since("0.18.3") && at == 0:
		r.fatal(key, "AssertionError: Fp16_master_weights_and_grads is only supported with ZeRO Stage 1, 2, or 3.", "%s needs ZeRO, and this is stage 0", key)
	}
	if bf16 == nil || !r.since("0.18.3") {
		return
	}
	key := "bf16.bf16_master_weights_and_grads"
	master, states := r.on(ofBF16, bf16, "bf16_master_weights_and_grads"), r.on(ofBF16, bf16, "bf16_optimizer_states")
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

// batch checks the three batch sizes. Any two of them determine the third by division, which may
// leave a remainder. If all three are given, their product must be right.
//
// Source: deepspeed/runtime/config.py, _set_batch_related_parameters and _batch_assertion, the same
// from 0.7.0 to 0.19.8.
func (r *reader) batch() {
	if r.takenOver() {
		return
	}
	numbers := [3]*int{}
	for i, key := range batchKeys {
		switch value := r.root.values[key].(type) {
		case nil:
		case int:
			numbers[i] = &value
		case string:
			if value != "auto" {
				r.fatal(key, "TypeError: '>' not supported between instances of 'str' and 'int'", "%s is the text %q: write the number without quotes", key, value)
			}
			return
		default:
			return // DeepSpeed has no rule for fractions
		}
	}
	r.config.TrainBatch, r.config.MicroBatch, r.config.Accumulation = numbers[0], numbers[1], numbers[2]
	if numbers[0] == nil && numbers[1] == nil {
		r.fatal("train_batch_size", "AssertionError: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided",
			"DeepSpeed needs train_batch_size or train_micro_batch_size_per_gpu, but neither is given")
		return
	}
	if r.worldSize > 0 && !r.splitsModel() {
		r.product(numbers, r.worldSize)
	}
}

// takenOver reports whether something else sets the batch sizes: elasticity, or a trainer that
// replaces "auto".
func (r *reader) takenOver() bool {
	return r.root.object("elasticity").get("enabled") == true ||
		slices.ContainsFunc(batchKeys, func(key string) bool { return r.root.values[key] == "auto" })
}

// splitsModel reports whether several ranks share one batch. In DeepSpeed's rule the world size is
// then smaller than the launch's number of ranks.
func (r *reader) splitsModel() bool {
	more := func(value any) bool {
		n, _, _ := parseNumber(value, true)
		return n > 1 || value == "auto"
	}
	tensor := r.root.object("tensor_parallel")
	return more(tensor.get("autotp_size")) || tensor.has("tp") || tensor.has("tensor_parallel") ||
		more(r.root.values["sequence_parallel_size"]) || r.root.has("pipeline")
}

func (r *reader) product(numbers [3]*int, world int) {
	var given [3]bool
	var values [3]int
	for i, n := range numbers {
		if given[i] = n != nil; given[i] {
			values[i] = *n
		}
	}
	train, micro, steps := values[0], values[1], values[2]
	switch given {
	case [3]bool{true, true, false}:
		if micro == 0 {
			r.dividesByZero("train_micro_batch_size_per_gpu")
			return
		}
		steps = floor(floor(train, micro), world)
	case [3]bool{true, false, true}:
		if steps == 0 {
			r.dividesByZero("gradient_accumulation_steps")
			return
		}
		micro = floor(floor(train, world), steps)
	case [3]bool{true, false, false}:
		steps, micro = 1, floor(train, world)
	case [3]bool{false, true, true}:
		train = micro * steps * world
	case [3]bool{false, true, false}:
		steps, train = 1, micro*world
	}
	for i, n := range []struct {
		value int
		name  string
	}{{train, "Train batch size"}, {micro, "Micro batch size per gpu"}, {steps, "Gradient accumulation steps"}} {
		if n.value > 0 {
			continue
		}
		key, message := batchKeys[i], fmt.Sprintf("%s is %d", batchKeys[i], n.value)
		if !given[i] { // report the given value, which the user can change
			key = batchKeys[slices.Index(given[:], true)]
			message = fmt.Sprintf("train_batch_size %d is too small for %d ranks: %s would be %d", train, world, batchKeys[i], n.value)
		}
		r.fatal(key, fmt.Sprintf("AssertionError: %s: %d has to be greater than 0", n.name, n.value), "%s", message)
		return
	}
	if train != micro*steps*world {
		r.fatal("train_batch_size", fmt.Sprintf("AssertionError: Check batch related parameters. train_batch_size is not equal to "+
			"micro_batch_per_gpu * gradient_acc_step * world_size %d != %d * %d * %d", train, micro, steps, world),
			"train_batch_size %d is not %d (train_micro_batch_size_per_gpu) * %d (gradient_accumulation_steps) * %d (ranks): give two of the three, or %d",
			train, micro, steps, world, micro*steps*world)
	}
}

func (r *reader) dividesByZero(key string) {
	r.fatal(key, "ZeroDivisionError: integer division or modulo by zero", "%s is 0", key)
}

// floor divides like Python's //, which rounds down.
func floor(a, b int) int {
	n := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		n--
	}
	return n
}
