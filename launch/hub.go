// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"

	"preflight/facts"
)

// HubOffline returns the variable that stops ranks from asking the Hugging Face Hub for a model or
// data set, "" for none.
//
// Source: huggingface_hub 0.36, constants.py, and huggingface/datasets 4.0, config.py,
// HF_HUB_OFFLINE.
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
			return "" // a later variable is only read if the earlier variables are unset
		}
	}
	return ""
}

// CachedModel returns the node's cached copy of a model, nil if the node's cache was not checked.
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

// ToFetch returns the models that the ranks of a node will fetch from the Hub. These are the models
// that the node's cache lacks, unless the ranks are told to stay offline.
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

// NoFetching returns the reason why none of these nodes needs the Hub, "" if a node needs it.
func (p Prediction) NoFetching(nodes []*facts.Node) string {
	switch {
	case len(p.Models) == 0:
		return "the command uses nothing from the Hub"
	case !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(p.ToFetch(n)) > 0 }):
		return "no node has to download anything from the Hub"
	}
	return ""
}
