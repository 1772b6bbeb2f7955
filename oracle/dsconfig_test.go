// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch/dsconfig"
	probelaunch "preflight/probe/launch"
	probed "preflight/probe/machine"
)

// dsConfig is one configuration with a number of ranks.
type dsConfig struct {
	Text  string `json:"text"`
	World int    `json:"world"`
}

// TestDeepSpeedConfig gives DeepSpeed and launch the same configurations, each with one or two
// random settings.
func TestDeepSpeedConfig(t *testing.T) {
	t.Parallel()
	home := os.Getenv("PREFLIGHT_ORACLE")
	if home == "" {
		home = filepath.Join(os.Getenv("HOME"), ".cache/preflight-oracle")
	}
	configs := dsConfigs(rand.New(rand.NewPCG(4, 15)))
	files := map[string][]dsconfig.File{} // what each interpreter reads, which takes a process for each configuration in Hjson
	for _, python := range []string{"deepspeed/old", "v215"} {
		for _, config := range configs {
			files[python] = append(files[python], read(t, filepath.Join(home, python, "bin/python"), config.Text))
		}
	}
	for release, python := range map[string]string{
		"0.7.7": "deepspeed/old", "0.9.5": "deepspeed/old", "0.12.6": "deepspeed/old",
		"0.14.5": "v215", "0.15.1": "v215", "0.15.2": "v215", "0.19.6": "v215", "0.19.8": "v215",
	} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			version, all := answers[[]string](t, configs, "/usr/bin/env", "PYTHONPATH="+filepath.Join(home, "deepspeed", release),
				filepath.Join(home, python, "bin/python"), "-B", "-W", "ignore", "dsconfig.py")
			if strings.TrimSpace(version) != release {
				t.Fatalf("this is DeepSpeed %s", version)
			}
			refused := 0
			for i, want := range all {
				got := readErrors(dsconfig.Read(files[python][i], release, configs[i].World))
				got = got[:min(len(got), max(1, len(want)))]
				for j := range got { // if the refusal is long, preflight's text is its beginning
					if j < len(want) && got[j] != "" && strings.HasPrefix(classPath.ReplaceAllString(want[j], "$1"), got[j]) {
						got[j] = want[j]
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%d ranks, %s: (-want +got)\n%s", configs[i].World, configs[i].Text, diff)
				}
				refused += min(1, len(want))
			}
			t.Logf("DeepSpeed %s: %d configurations, %d of them refused", release, len(configs), refused)
			if refused < len(configs)/4 || refused > len(configs)*4/5 {
				t.Error("that is not what the configurations are meant to be")
			}
		})
	}
}

// read returns a configuration as the launching machine reads it with the given Python interpreter.
func read(t *testing.T, python, text string) dsconfig.File {
	t.Helper()
	config := dsconfig.File{Path: "ds.json", JSON: text}
	if json.Valid([]byte(text)) {
		return config
	}
	path := filepath.Join(t.TempDir(), config.Path)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := probelaunch.CollectFiles(t.Context(), probed.Options{Interpreter: python, Head: true, Files: []facts.LaunchFile{{Path: path, Role: facts.RoleConfig}}})
	if err != nil || files.Files[0].Hjson == nil || files.Files[0].Hjson.Unknown != "" {
		t.Fatalf("%s: %v, %+v", text, err, files)
	}
	config.JSON, config.Hjson, config.Refused = files.Files[0].Text, true, files.Files[0].Hjson.Refused
	return config
}

// classPath matches the module of a class, which Python names in some messages.
var classPath = regexp.MustCompile(`\b(?:deepspeed\.[a-z_.]+)(\w+\(\) argument)`)

// readErrors returns the errors that end DeepSpeed's reading of the file. Its engine may report
// more errors later, which are not tested here.
func readErrors(config *dsconfig.Config) []string {
	all := []string{}
	for _, problem := range config.Problems {
		if problem.Fatal && !strings.HasPrefix(problem.Key, "optimizer.") && !strings.HasPrefix(problem.Original, "TypeError: expected str") {
			all = append(all, problem.Original)
		}
	}
	return all
}

// dsConfigs returns many configurations. They cover every setting in its table of sections, with
// valid and invalid values.
func dsConfigs(r *rand.Rand) []dsConfig {
	values := []any{true, false, 0, 1, 2, 3, -1, 7, 0.5, 1.5, "1", "true", "x", "auto", nil, []any{}, map[string]any{}, 5e8}
	sections := map[string][]string{
		"zero_optimization": {
			"stage", "contiguous_gradients", "reduce_bucket_size", "allgather_bucket_size", "overlap_comm", "offload_param", "offload_optimizer", "cpu_offload",
			"sub_group_size", "stage3_prefetch_bucket_size", "prefetch_bucket_size", "stage3_max_live_parameters", "stage3_gather_16bit_weights_on_model_save",
			"stage3_gather_fp16_weights_on_model_save", "zero_hpz_partition_size", "mics_shard_size", "memory_efficient_linear", "stage3_module_granularity_threshold",
			"log_trace_cache_warnings", "compute_grad_norm", "parameter_alignment", "zeropp_loco_param", "stgae", "zenflow", "mics_hierarchical_params_gather",
		},
		"fp16":                     {"enabled", "loss_scale_window", "hysteresis", "fp16_master_weights_and_grads", "enable"},
		"bf16":                     {"enabled", "immediate_grad_update", "check_grad_overflow", "bf16_master_weights_and_grads", "enable"},
		"comms_logger":             {"enabled", "verbose", "prof_ops", "prof"},
		"hybrid_engine":            {"enabled", "max_out_tokens", "inference_tp_size", "tokens"},
		"aio":                      {"block_size", "queue_depth", "thread_count", "intra_op_parallelism", "x"},
		"activation_checkpointing": {"partition_activations", "x"},
		"checkpoint":               {"load_universal", "x"},
		"tensorboard":              {"enabled", "output_path", "x"},
		"compile":                  {"deepcompile", "free_activation", "free_activation_threshold", "x"},
		"tensor_parallel":          {"keep_module_on_host", "preset_model", "kernel_inject", "x"},
		"weight_quantization":      {"quantized_initialization", "post_init_quant", "x"},
		"flops_profiler":           {"enabled", "x"},
	}
	names := slices.Sorted(maps.Keys(sections))
	var all []dsConfig
	for range 1500 {
		config := map[string]any{}
		for _, key := range []string{"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"} {
			if r.IntN(3) > 0 {
				config[key] = pick(r, 1, 2, 4, 8, 16, 32, 64, 0, -2)
			}
		}
		if r.IntN(3) > 0 {
			config["train_batch_size"], config["train_micro_batch_size_per_gpu"] = 32, 2
			delete(config, "gradient_accumulation_steps")
		}
		for range r.IntN(3) {
			name := pick(r, names...)
			section, _ := config[name].(map[string]any)
			if section == nil {
				section = map[string]any{}
				config[name] = section
			}
			for range 1 + r.IntN(2) {
				section[pick(r, sections[name]...)] = pick(r, values...)
				if name == "comms_logger" || name == "tensorboard" { // old releases do not accept "auto" in these sections, and no program replaces it
					maps.DeleteFunc(section, func(_ string, value any) bool { return value == "auto" })
				}
			}
		}
		if zero, given := config["zero_optimization"].(map[string]any); given && r.IntN(2) == 0 {
			zero["offload_"+pick(r, "optimizer", "param")] = map[string]any{pick(r, "device", "nvme_path", "pin_memory", "buffer_count", "ratio", "x"): pick(r, append(values, "cpu", "nvme")...)}
		}
		switch r.IntN(12) {
		case 0:
			config["communication_data_type"] = pick(r, "fp16", "bf16", "bfp16", "FP32", "int8")
		case 1:
			config["checkpoint"] = map[string]any{"tag_validation": pick(r, "Warn", "FAIL", "ignore", "never")}
		case 2:
			config[pick(r, "nebula", "sparse_gradients", "curriculum_learning", "progressive_layer_drop", "graph_harvesting", "train_batchsize")] = map[string]any{"enabled": false}
		case 3:
			config["gradient_allreduce_op"] = pick(r, "mean", "SUM", "max")
		case 4:
			config["zero_optimization"] = pick[any](r, true, false, nil, 2, "2")
		}
		text, _ := json.MarshalIndent(config, "", "  ")
		all = append(all, dsConfig{Text: mangled(r, string(text)), World: pick(r, 1, 2, 4, 8, 3)})
	}
	return all
}

// mangled converts some of the texts to Hjson or to invalid texts.
func mangled(r *rand.Rand, text string) string {
	old, new := "", ""
	switch r.IntN(24) {
	case 0:
		old, new = "{\n", "{ // a comment, and /* another */\n # one more\n"
	case 1:
		old, new = ",\n", "\n"
	case 2:
		old, new = "}", ",}"
	case 3:
		old, new = "{", ""
	case 4:
		old, new = "\"", ""
	case 5:
		old, new = ":", ""
	case 6:
		old, new = ",", ",\"steps_per_print\": 1,"
	case 7:
		old, new = "\"", "'"
	case 8:
		old, new = "}", "} x"
	}
	if old == "" {
		return text
	}
	return strings.Replace(text, old, new, 1+r.IntN(3))
}
