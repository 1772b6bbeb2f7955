// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"preflight/facts"
)

// modelOptions lists the options with which scripts name their initial model, and revisionOptions
// lists the options for its revision. They come from the examples of transformers, LLaMA-Factory
// and TRL, from ms-swift and from axolotl.
var modelOptions, revisionOptions = []string{"model_name_or_path", "model", "base_model"}, []string{"model_revision", "revision", "revision_of_model"}

// dataOptions lists the options with which scripts name data sets: in the examples of transformers
// and TRL, and in axolotl, whose entries are converted to this option.
var dataOptions = []string{"dataset_name", "datasets"}

// ModelsNamed returns the models and data sets that the command and its configuration name by their
// names on the Hugging Face Hub. ms-swift uses ModelScope unless told otherwise. LLaMA-Factory has
// its own names for data sets unless their directory is ONLINE.
//
// Source: modelscope/ms-swift 3602360a, swift/arguments/base_args/base_args.py, use_hf;
// hiyouga/LLaMA-Factory ff6d4d12, data/parser.py, get_dataset_list; huggingface/transformers 4.57,
// examples/pytorch/language-modeling/run_clm.py, which passes the same cache_dir for both.
func ModelsNamed(o Options) (all []facts.ModelNamed) {
	settings := o.settings()
	usesHub, saysHub := lastOf(settings, "use_hf")
	isElsewhere := strings.HasPrefix(o.Script, "swift.cli.") && (!saysHub || len(usesHub) == 1 && strings.ToLower(usesHub[0]) != "true")
	if isElsewhere {
		return nil
	}
	cacheDir := ""
	if in, _ := lastOf(settings, "cache_dir"); len(in) == 1 && isPlace(in[0]) {
		if cacheDir = in[0]; !path.IsAbs(cacheDir) {
			cacheDir = path.Join(o.WorkDir, cacheDir)
		}
	}
	if named, _ := lastOf(settings, modelOptions...); len(named) == 1 && isOnHub(named[0]) {
		model := facts.ModelNamed{Name: named[0], Revision: "main", CacheDir: cacheDir}
		if revision, _ := lastOf(settings, revisionOptions...); len(revision) == 1 {
			model.Revision = cmp.Or(revision[0], model.Revision)
		}
		all = append(all, model)
	}
	for _, name := range dataSets(settings) {
		if isOnHub(name) {
			all = append(all, facts.ModelNamed{Name: name, Revision: "main", DataSet: true, CacheDir: cacheDir})
		}
	}
	return all
}

// SwiftConfig returns the name of a DeepSpeed configuration that is part of ms-swift, "" for none.
// Only the nodes have the text of such a configuration.
//
// Source: modelscope/ms-swift, swift/llm/argument/train_args.py of 3.x and swift/config of 4.x.
func (p Prediction) SwiftConfig() string {
	named, _ := lastOf(settingsIn(p.Arguments), switchOrConfig)
	if !strings.HasPrefix(p.Script, "swift.cli.") || len(named) != 1 || !slices.Contains([]string{"zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload"}, named[0]) {
		return ""
	}
	return named[0]
}

func isOnHub(name string) bool { return hubName.MatchString(name) && !strings.HasPrefix(name, ".") }

// dataSets returns the names of the data sets that the settings load, without duplicates.
func dataSets(settings []setting) []string {
	names, _ := lastOf(settings, dataOptions...)
	if dir, _ := lastOf(settings, "dataset_dir"); slices.Equal(dir, []string{"ONLINE"}) {
		of, _ := lastOf(settings, "dataset")
		names = strings.Split(strings.Join(of, ","), ",")
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
