// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"strings"

	"preflight/facts"
)

// modelOptions are what scripts call the model that they begin with, and its revision: the
// examples of transformers, LLaMA-Factory and TRL; ms-swift; axolotl.
var modelOptions, revisionOptions = []string{"model_name_or_path", "model", "base_model"}, []string{"model_revision", "revision", "revision_of_model"}

// ModelsNamed are the models that the command and its configuration name as the Hub of Hugging
// Face does. ms-swift asks ModelScope unless it is told otherwise, and a --cache_dir of the
// script's is looked for nowhere.
//
// Source: modelscope/ms-swift 3602360a, swift/arguments/base_args/base_args.py, use_hf.
func ModelsNamed(o Options) []facts.ModelNamed {
	settings := o.settings()
	named, _ := told(settings, modelOptions...)
	usesHub, saysHub := told(settings, "use_hf")
	_, hasCache := told(settings, "cache_dir")
	isElsewhere := strings.HasPrefix(o.Script, "swift.cli.") && (!saysHub || len(usesHub) == 1 && strings.ToLower(usesHub[0]) != "true")
	if len(named) != 1 || isElsewhere || hasCache || !hubName.MatchString(named[0]) || strings.HasPrefix(named[0], ".") {
		return nil
	}
	model := facts.ModelNamed{Name: named[0], Revision: "main"}
	if revision, _ := told(settings, revisionOptions...); len(revision) == 1 {
		model.Revision = cmp.Or(revision[0], model.Revision)
	}
	return []facts.ModelNamed{model}
}
