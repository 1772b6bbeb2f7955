// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spelled returns each problem as one line: "!" if the training ends, the key, and the message.
func spelled(config *Config) []string {
	all := []string{}
	for _, p := range config.Problems {
		mark := "?"
		if p.Fatal {
			mark = "!"
		}
		all = append(all, fmt.Sprintf("%s %s | %s | %s", mark, p.Key, p.Message, p.Original))
	}
	return all
}

// batch is a valid configuration to which tests add settings.
const batch = `"train_micro_batch_size_per_gpu": 2`

// TestReadConfigProblems: the messages are DeepSpeed's own. oracle/dsconfig_test.go compares them
// with those of many releases.
func TestReadConfigProblems(t *testing.T) {
	const validation, old = "pydantic_core._pydantic_core.ValidationError: ", "pydantic.error_wrappers.ValidationError: "
	for _, c := range []struct {
		name, text, deepspeed string
		want                  []string
	}{
		{"nothing wrong", `{` + batch + `, "zero_optimization": {"stage": 2}, "fp16": {"enabled": "auto"}}`, "", []string{}},
		{"an empty object", `{}`, "", []string{
			"! train_batch_size | DeepSpeed needs train_batch_size or train_micro_batch_size_per_gpu, but neither is given | " +
				"AssertionError: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided",
		}},
		{"a misspelt key above", `{` + batch + `, "zero_optimisation": {}}`, "0.15.1", []string{
			`? zero_optimisation | zero_optimisation: DeepSpeed 0.15.1 does not know it: did you mean "zero_optimization"?, and silently ignores it | `,
		}},
		{"a misspelt key below", `{` + batch + `, "zero_optimization": {"stgae": 2}}`, "0.15.1", []string{
			`! zero_optimization.stgae | zero_optimization.stgae: DeepSpeed 0.15.1 does not know it: did you mean "stage"?, and it refuses the file | ` +
				validation + `1 validation error for DeepSpeedZeroConfig: stgae: Extra inputs are not permitted`,
		}},
		{"the same before pydantic 2", `{` + batch + `, "zero_optimization": {"stgae": 2}}`, "0.14.5", []string{
			`! zero_optimization.stgae | zero_optimization.stgae: DeepSpeed 0.14.5 does not know it: did you mean "stage"?, and it refuses the file | ` +
				old + `1 validation error for DeepSpeedZeroConfig: stgae: extra fields not permitted`,
		}},
		{"a key of later", `{` + batch + `, "torch_autocast": {}}`, "0.15.1", []string{
			"? torch_autocast | torch_autocast: DeepSpeed 0.15.1 does not know it; it was added in 0.17.2, and silently ignores it | ",
		}},
		{"a key of earlier", `{` + batch + `, "aio": {"thread_count": 1}}`, "", []string{
			"? aio.thread_count | aio.thread_count: the newest DeepSpeed does not know it; it was removed in 0.16.4, and silently ignores it | ",
		}},
		{"comments as keys", `{` + batch + `, "_comment": 1, "//": "x", "#": 0}`, "", []string{}},
		{"two mistakes are one exception", `{` + batch + `, "zero_optimization": {"stage": 7, "offload_param": {"device": "disk"}}}`, "0.19.8", []string{
			"! zero_optimization.stage | zero_optimization.stage: the value 7 is refused (Input should be 0, 1, 2, 3 or 3) | " +
				validation + "2 validation errors for DeepSpeedZeroConfig: stage: Input should be 0, 1, 2, 3 or 3",
			"! zero_optimization.offload_param.device | zero_optimization.offload_param.device: the value 'disk' is refused (Input should be 'none', 'cpu' or 'nvme') | " +
				validation + "2 validation errors for DeepSpeedZeroConfig: offload_param.device: Input should be 'none', 'cpu' or 'nvme'",
		}},
		{"two precisions", `{` + batch + `, "fp16": {"enabled": true}, "bf16": {"enabled": true}}`, "", []string{
			"! bf16.enabled | bf16 and fp16 are both enabled: set one of them to false | AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled",
		}},
		{"what is gone", `{` + batch + `, "sparse_gradients": true}`, "0.19.8", []string{
			`! sparse_gradients | "sparse_gradients" was removed in DeepSpeed 0.19.8, which refuses the file: remove it, or use an older release | ` +
				"deepspeed.runtime.config.DeepSpeedConfigError: Sparse compression of dense torch.nn.Embedding gradients has been removed.",
		}},
		{"what is not gone yet", `{` + batch + `, "sparse_gradients": true}`, "0.19.7", []string{}},
		{"old and new at once", `{` + batch + `, "zero_optimization": {"stage": 2, "cpu_offload": true, "offload_optimizer": {"device": "cpu"}}}`, "", []string{
			"! zero_optimization.cpu_offload | zero_optimization.cpu_offload was replaced by offload_optimizer, and both are given: remove the old one | " +
				"AssertionError: Cannot provide deprecated parameter 'cpu_offload' and replacing parameter 'offload_optimizer' together",
		}},
		{"an optimizer of nobody's", `{` + batch + `, "optimizer": {"type": "sgd"}}`, "", []string{
			`! optimizer.type | optimizer.type "sgd" is neither an optimizer of DeepSpeed nor of torch.optim (names are case-sensitive), unless the script creates its own optimizer | ` +
				"AssertionError: sgd is not a supported DeepSpeed Optimizer",
		}},
		{"an untested one", `{` + batch + `, "optimizer": {"type": "SGD"}, "zero_optimization": {"stage": 1}}`, "", []string{
			`! optimizer.type | SGD is untested with ZeRO: add "zero_allow_untested_optimizer": true, or use Adam, unless the script creates its own optimizer | ` +
				`AssertionError: You are using an untested ZeRO Optimizer. Please add <"zero_allow_untested_optimizer": true> in the configuration file to use it.`,
		}},
		{"an untested one that is allowed", `{` + batch + `, "optimizer": {"type": "SGD"}, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": true}`, "", []string{}},
		{"one that does not go with ZeRO", `{` + batch + `, "optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 1}}`, "0.15.1", []string{
			"! optimizer.type | OneBitAdam does not work with ZeRO: use another optimizer, or stage 0 | AssertionError: 1bit-Adam is not compatible with ZeRO",
		}},
		{"NVMe without a path", `{` + batch + `, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}`, "", []string{
			"! zero_optimization.offload_param.nvme_path | zero_optimization.offload_param has no nvme_path, the directory for the states | " +
				"TypeError: expected str, bytes or os.PathLike object, not NoneType",
		}},
		{"NVMe at stage 2", `{` + batch + `, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}}`, "", []string{
			"? zero_optimization.offload_optimizer.device | only ZeRO stage 3 uses NVMe: with stage 2 the optimizer's states go to the CPU's memory | ",
		}},
		{"parameters at stage 2", `{` + batch + `, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}`, "", []string{
			"? zero_optimization.offload_param | zero_optimization.offload_param has no effect with ZeRO stage 2: it needs stage 3 | ",
		}},
		{"elasticity takes over", `{` + batch + `, "elasticity": {"enabled": true}}`, "0.19.7", []string{
			"! elasticity | elasticity sets the batch sizes, but train_micro_batch_size_per_gpu is also given: remove it, or set elasticity.ignore_non_elastic_batch_info | " +
				"deepspeed.elasticity.config.ElasticityConfigError: One or more batch related parameters were found in your ds_config (train_batch_size, " +
				"train_micro_batch_size_per_gpu, and/or gradient_accumulation_steps). These parameters *will not be used* since elastic training is enabled, which takes control of these parameters.",
		}},
		{"duplicates", `{"fp16": {"enabled": true, "enabled": false}}`, "", []string{
			"!  | the file cannot be read: ValueError: Duplicate keys in DeepSpeed config: ['enabled'] | ValueError: Duplicate keys in DeepSpeed config: ['enabled']",
		}},
		{"no object", `[1]`, "", []string{
			"!  | the file holds no object: write { … } around the settings | AttributeError: 'list' object has no attribute 'get'",
		}},
		{"a section that is none", `{` + batch + `, "optimizer": "Adam"}`, "", []string{
			`! optimizer | optimizer must be an object: write "optimizer": { … } | AttributeError: 'str' object has no attribute 'get'`,
		}},
	} {
		if diff := cmp.Diff(c.want, spelled(Read(File{Path: "ds.json", JSON: c.text}, c.deepspeed, 0))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// TestReadHjson: for a file that is not JSON, the result of the launch's own interpreter counts.
func TestReadHjson(t *testing.T) {
	const noJSON = "!  | the file is not JSON, and DeepSpeed reads Hjson (comments, extra commas) only since 0.8.1: check it with `python3 -m json.tool FILE` | json.decoder.JSONDecodeError"
	const refused = "hjson.scanner.HjsonDecodeError: Bad key name (eof): line 1 column 8 (char 7)"
	for _, c := range []struct {
		name      string
		file      File
		deepspeed string
		want      []string // nil if no result is known
	}{
		{"read", File{JSON: "{" + batch + "}", Hjson: true}, "", []string{}},
		{"refused", File{Hjson: true, Refused: refused}, "", []string{"!  | the file cannot be read: Bad key name (eof): line 1 column 8 (char 7) | " + refused}},
		{"not known", File{Hjson: true}, "", nil},
		{"for a release that has none", File{JSON: "{" + batch + "}", Hjson: true}, "0.7.7", []string{noJSON}},
		{"not known, for a release that has none", File{Hjson: true}, "0.7.7", []string{noJSON}},
	} {
		var got []string
		if config := Read(c.file, c.deepspeed, 0); config != nil {
			got = spelled(config)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestReadConfigBatch(t *testing.T) {
	const mismatch = "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size "
	for _, c := range []struct {
		text  string
		world int
		want  string // DeepSpeed's exception
	}{
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2`, 8, ""},
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2`, 16, mismatch + "32 != 2 * 2 * 16"},
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2`, 0, ""},
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2`, 3, mismatch + "32 != 2 * 5 * 3"},
		{`"train_batch_size": 32, "gradient_accumulation_steps": 2`, 8, ""},
		{`"train_batch_size": 32, "gradient_accumulation_steps": 3`, 8, mismatch + "32 != 1 * 3 * 8"},
		{`"train_batch_size": 4`, 8, "AssertionError: Micro batch size per gpu: 0 has to be greater than 0"},
		{`"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4`, 8, "AssertionError: Gradient accumulation steps: 0 has to be greater than 0"},
		{`"train_batch_size": 32, "gradient_accumulation_steps": -3`, 8, "AssertionError: Micro batch size per gpu: -2 has to be greater than 0"},
		{`"train_batch_size": -8`, 3, "AssertionError: Train batch size: -8 has to be greater than 0"},
		{`"train_batch_size": 8, "train_micro_batch_size_per_gpu": 0`, 8, "ZeroDivisionError: integer division or modulo by zero"},
		{`"train_batch_size": 8, "gradient_accumulation_steps": 0`, 8, "ZeroDivisionError: integer division or modulo by zero"},
		{`"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 5`, 7, ""},
		{`"train_batch_size": "32"`, 8, "TypeError: '>' not supported between instances of 'str' and 'int'"},
		{`"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 7`, 8, ""},
		{`"train_batch_size": null, "train_micro_batch_size_per_gpu": 7`, 8, ""},
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "sequence_parallel_size": 4`, 3, ""},
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "tensor_parallel": {"autotp_size": 4}`, 3, ""},
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "tensor_parallel": {"autotp_size": 1}`, 3, mismatch + "32 != 2 * 5 * 3"},
		{`"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "pipeline": {"stages": 4}`, 3, ""},
	} {
		got := ""
		for _, p := range Read(File{JSON: "{" + c.text + "}"}, "0.17.0", c.world).Problems {
			got += p.Original
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s, %d ranks: (-want +got)\n%s", c.text, c.world, diff)
		}
	}
}

func TestReadConfigNeeds(t *testing.T) {
	for _, c := range []struct {
		name, text, deepspeed string
		stage                 int
		offload               []Offload
		ops                   []string
	}{
		{"Adam", `"optimizer": {"type": "AdamW"}`, "", 0, nil, []string{"fused_adam"}},
		{"torch's Adam", `"optimizer": {"type": "Adam", "params": {"torch_adam": true}}`, "", 0, nil, nil},
		{"none", `"zero_optimization": {"stage": 3}`, "", 3, nil, nil},
		{"ZeRO by a flag", `"zero_optimization": true`, "", 1, nil, nil},
		{"a stage in quotes", `"zero_optimization": {"stage": "2"}`, "", 2, nil, nil},
		{"Lion, offloaded", `"optimizer": {"type": "Lion"}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}`, "", 2,
			[]Offload{{"optimizer", "cpu", ""}}, []string{"cpu_lion"}},
		{"the script's own, offloaded", `"zero_optimization": {"stage": 2, "cpu_offload": true}`, "", 2, []Offload{{"optimizer", "cpu", ""}}, []string{"cpu_adam"}},
		{"the script's very own, offloaded", `"zero_force_ds_cpu_optimizer": false, "zero_optimization": {"stage": 2, "cpu_offload": true}`, "", 2,
			[]Offload{{"optimizer", "cpu", ""}}, nil},
		{"ZeRO-Infinity", `"optimizer": {"type": "Adam"}, "zero_optimization": {"stage": 3,
			"offload_optimizer": {"device": "nvme", "nvme_path": "/nvme/"}, "offload_param": {"device": "nvme", "nvme_path": "/nvme"}}`, "0.15.1", 3,
			[]Offload{{"optimizer", "nvme", "/nvme"}, {"param", "nvme", "/nvme"}}, []string{"cpu_adam", "async_io"}},
		{"pinned by an op of its own", `"optimizer": {"type": "SGD"}, "zero_allow_untested_optimizer": true,
			"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/nvme"}}`, "0.19.5", 3,
			[]Offload{{"param", "nvme", "/nvme"}}, []string{"async_io", "pin_memory"}},
		{"ZeRO++", `"zero_optimization": {"stage": 3, "zero_quantized_weights": true, "zero_quantized_gradients": true}`, "", 3, nil, []string{"quantizer"}},
		{"old releases flatten by an op", `"optimizer": {"type": "Lamb"}`, "0.9.4", 0, nil, []string{"utils", "fused_lamb"}},
	} {
		got := Read(File{Path: "ds.json", JSON: "{" + batch + ", " + c.text + "}"}, c.deepspeed, 8)
		two := 2
		want := &Config{Path: "ds.json", MicroBatch: &two, ZeroStage: c.stage, Offload: c.offload, Ops: c.ops}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestPythonRepr(t *testing.T) {
	if got, want := pythonRepr([]string{"a", `it's "x"`, "it's"}), `['a', 'it\'s "x"', "it's"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestKeyOfADerivedSize: a batch size that the file does not give is derived from one that it
// gives. The problem is reported for the key that the file gives.
func TestKeyOfADerivedSize(t *testing.T) {
	for text, want := range map[string]string{
		`{"train_batch_size": 30, "train_micro_batch_size_per_gpu": 1}`: "train_batch_size",
		`{"train_batch_size": 4}`: "train_batch_size",
		`{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": -2}`: "gradient_accumulation_steps",
	} {
		problems := Read(File{JSON: text}, "0.17.0", 32).Problems
		if len(problems) != 1 || problems[0].Key != want {
			t.Errorf("%s: %+v, want one of %s", text, problems, want)
		}
	}
}
