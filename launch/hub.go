// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"

	"preflight/facts"
)

// HubOffline is the variable that keeps ranks from asking the Hub of Hugging Face for a model or a
// data set, "" for none.
//
// Source: huggingface_hub 0.36, constants.py, and huggingface/datasets 4.0, config.py, HF_HUB_OFFLINE.
func HubOffline(env Env, named facts.ModelNamed) string {
	by := []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}
	if named.DataSet {
		by = slices.Concat([]string{"HF_DATASETS_OFFLINE"}, by)
	}
	for _, name := range by {
		if value := env.Get(name).Value; value != "" {
			if slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(value)) {
				return name
			}
			return "" // another is read where those before it say nothing
		}
	}
	return ""
}

// CachedModel is what a node has of a model, nil where nobody looked.
func CachedModel(node *facts.Node, named facts.ModelNamed) *facts.Model {
	if node.Files == nil {
		return nil
	}
	at := slices.IndexFunc(node.Files.Models, func(m facts.Model) bool { return m.ModelNamed == named })
	if at < 0 {
		return nil
	}
	return &node.Files.Models[at]
}

// ToFetch are the models that the ranks of a node will fetch from the Hub: those that its cache is
// seen to lack, unless they are told not to ask.
func (p Prediction) ToFetch(node *facts.Node) (lacking []facts.ModelNamed) {
	if node.Env == nil {
		return nil
	}
	env := RankEnv(node.Env, p.Exports)
	for _, named := range p.Models {
		if m := CachedModel(node, named); m != nil && m.Problem == "" && !m.Local && m.Commit == "" && HubOffline(env, named) == "" {
			lacking = append(lacking, named)
		}
	}
	return lacking
}

// NoFetching is why none of these nodes has to get to the Hub, "" where one has.
func (p Prediction) NoFetching(nodes []*facts.Node) string {
	switch {
	case len(p.Models) == 0:
		return "the command uses nothing from the Hub"
	case !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(p.ToFetch(n)) > 0 }):
		return "no node has to download anything from the Hub"
	}
	return ""
}
