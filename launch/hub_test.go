// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"testing"

	"preflight/facts"
)

// TestToFetch checks what the ranks of a node must get from the Hub, and whether any node needs the
// Hub.
func TestToFetch(t *testing.T) {
	named := facts.ModelNamed{Name: "org/model", Revision: "main"}
	const cached = "no node has to download anything from the Hub"
	for name, c := range map[string]struct {
		change func(*Prediction, *facts.Node)
		none   string // why no node fetches anything, "" if a node does
	}{
		"cold":             {func(*Prediction, *facts.Node) {}, ""},
		"cached":           {func(_ *Prediction, n *facts.Node) { n.Files.Models[0].Commit = "ab12c0de" }, cached},
		"a directory":      {func(_ *Prediction, n *facts.Node) { n.Files.Models[0].Local = true }, cached},
		"not to be read":   {func(_ *Prediction, n *facts.Node) { n.Files.Models[0].Problem = "permission denied" }, cached},
		"nothing named":    {func(p *Prediction, _ *facts.Node) { p.Models = nil }, "the command uses nothing from the Hub"},
		"files not seen":   {func(_ *Prediction, n *facts.Node) { n.Files = nil }, cached},
		"session not seen": {func(_ *Prediction, n *facts.Node) { n.Env = nil }, cached},
		"offline": {func(_ *Prediction, n *facts.Node) {
			n.Env.Vars = []facts.Setting{{Name: "TRANSFORMERS_OFFLINE", Value: "yes"}}
		}, cached},
		"offline by export": {func(p *Prediction, _ *facts.Node) { p.Exports = []facts.Setting{{Name: "HF_HUB_OFFLINE", Value: "1"}} }, cached},
		"offline undone by the export": {func(p *Prediction, n *facts.Node) {
			n.Env.Vars = []facts.Setting{{Name: "HF_HUB_OFFLINE", Value: "1"}}
			p.Exports = []facts.Setting{{Name: "HF_HUB_OFFLINE", Value: "0"}}
		}, ""},
	} {
		node := &facts.Node{Name: "w1", Facts: facts.Facts{Env: &facts.Env{}, Files: &facts.Files{Models: []facts.Model{{ModelNamed: named}}}}}
		p := Prediction{Models: []facts.ModelNamed{named}}
		c.change(&p, node)
		if got := p.NoFetching([]*facts.Node{node}); got != c.none || (len(p.ToFetch(node)) > 0) != (c.none == "") {
			t.Errorf("%s: %v, %q, want %q", name, p.ToFetch(node), got, c.none)
		}
	}
}
