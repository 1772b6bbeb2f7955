// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

func TestUsual(t *testing.T) {
	card := func(model string, value int) *facts.Card {
		return &facts.Card{Name: model, Clock: facts.GPUClock{MaxSM: value}}
	}
	for name, c := range map[string]struct {
		cards []*facts.Card
		want  map[string]int64
	}{
		"most":             {[]*facts.Card{card("a", 2), card("a", 1), card("a", 1)}, map[string]int64{"a": 1}},
		"the higher":       {[]*facts.Card{card("a", 1), card("a", 2), card("a", 2), card("a", 1)}, map[string]int64{"a": 2}},
		"of each model":    {[]*facts.Card{card("a", 1), card("b", 5), card("a", 1), card("b", 5)}, map[string]int64{"a": 1, "b": 5}},
		"that is known":    {[]*facts.Card{card("a", 0), card("a", 0), card("a", 3)}, map[string]int64{"a": 3}},
		"nobody tells any": {[]*facts.Card{card("a", 0)}, map[string]int64{}},
		"nobody is there":  {nil, map[string]int64{}},
	} {
		got := usual([]*facts.Node{{}}, func(*facts.Node) []*facts.Card { return c.cards }, func(card *facts.Card) int64 { return int64(card.Clock.MaxSM) })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestGPUsBehindHiddenOnes checks that slots and the topology tables count only the GPUs that NVML
// shows. NVML's indices also count hidden GPUs.
func TestGPUsBehindHiddenOnes(t *testing.T) {
	fleet := fleettest.Healthy(2)
	for i := range fleet.Nodes {
		nvml := fleet.Nodes[i].NVML
		nvml.Hidden, nvml.Cards, nvml.Topology, nvml.Peers = 4, nvml.Cards[4:], nvml.Topology[4:], nvml.Peers[4:]
		for row := range nvml.Cards {
			nvml.Topology[row], nvml.Peers[row] = nvml.Topology[row][4:], nvml.Peers[row][4:]
		}
		fleet.Launch.Hosts[i].Slots = []int{1, 2}
	}
	node := &fleet.Nodes[0]
	node.NVML.Peers[1][2] = "not-supported"
	var got []int
	for _, card := range usedCards(checks.View{Launch: fleet.Launch})(node) {
		got = append(got, card.Index)
	}
	if diff := cmp.Diff([]int{5, 6}, got); diff != "" {
		t.Errorf("the GPUs of the launch (-want +got):\n%s", diff)
	}
	if findings := engine.Evaluate([]checks.Check{PeerAccess}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings; len(findings) != 1 || findings[0].Got != "GPUs 5 and 6 (NV18): not-supported" {
		t.Errorf("%+v", findings)
	}
}
