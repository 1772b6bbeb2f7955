// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"

	"preflight/facts"
)

// HubOffline is the variable that keeps ranks from asking the Hub of Hugging Face, "" for none.
//
// Source: huggingface_hub 0.36, constants.py, HF_HUB_OFFLINE.
func HubOffline(env Env) string {
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		if value := env.Get(name).Value; value != "" {
			if slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(value)) {
				return name
			}
			return "" // the second is read where the first says nothing
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
	if node.Env == nil || HubOffline(RankEnv(node.Env, p.Exports)) != "" {
		return nil
	}
	for _, named := range p.Models {
		if m := CachedModel(node, named); m != nil && m.Problem == "" && !m.Local && m.Commit == "" {
			lacking = append(lacking, named)
		}
	}
	return lacking
}

// NoFetching is why none of these nodes has to get to the Hub, "" where one has.
func (p Prediction) NoFetching(nodes []*facts.Node) string {
	switch {
	case len(p.Models) == 0:
		return "the command names nothing of the Hub"
	case !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(p.ToFetch(n)) > 0 }):
		return "no node has to fetch from the Hub what the launch names"
	}
	return ""
}
