// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"preflight/agent"
	"preflight/facts"
	"preflight/probe"
)

// TestSectionIsOneRow checks that a section is one row of probe.Sections. It uses a table with one
// made-up section. Every node must be asked only for that section, and its answer must be decoded.
// If there is no answer, the reason must be the node's own, or that the node was lost.
func TestSectionIsOneRow(t *testing.T) {
	real := probe.Sections
	t.Cleanup(func() { probe.Sections = real })
	probe.Sections = []probe.Section{{
		Name: facts.SectionMemory, Asked: probe.Nodes, Limit: time.Second, Suspect: "nothing",
		Collect: func(_ context.Context, o probe.Options) (facts.Facts, error) {
			if o.WorkDir == "" {
				return facts.Facts{}, errors.New("made up")
			}
			return facts.Facts{Memory: &facts.Memory{Total: 42}}, nil
		},
	}}
	for workDir, want := range map[string]string{"/srv": "", "": "made up"} {
		job := running(t, answers{"probe": agent.Methods()["probe"]}, answers{"probe": nil})
		job.Prediction.WorkDir = workDir
		fleet, _ := Look(t.Context(), job)
		told, lost := fleet.Nodes[0], fleet.Nodes[1]
		if seen := told.Memory != nil && told.Memory.Total == 42; seen != (want == "") || told.Missing[facts.SectionMemory] != want {
			t.Errorf("seen %v, missing because %q, want %q", seen, told.Missing[facts.SectionMemory], want)
		}
		if lost.Missing[facts.SectionMemory] == "" {
			t.Error("nobody says why the lost node tells nothing")
		}
		for _, node := range fleet.Nodes {
			if reason, asked := node.Missing[facts.SectionHost]; asked || node.Has(facts.SectionHost) {
				t.Errorf("%s was asked for a section that is not in the table: %q", node.Name, reason)
			}
		}
	}
}
