// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/drill/mesh"
	"preflight/facts"
	"preflight/launch/nccl"
)

// TestBelievable: what a node says of its calls is taken once of each that it was to call,
// and that it was answered only with the proof of who answered.
func TestBelievable(t *testing.T) {
	all := membersFor(5)
	r := &run{members: all}
	plan := &addressPlan{places: map[*member]*place{}}
	for i, address := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"} {
		plan.places[all[i]] = &place{choice: nccl.Choice{Address: address}, ports: []int{40000 + i}}
	}
	plan.places[all[4]].unfit = "it did not listen"
	by := func(secret string) string { return mesh.Proof(secret, "w1") }
	path := func(peer string, outcome facts.PathOutcome, answered string) facts.Path {
		return facts.Path{Peer: peer, Outcome: outcome, Answered: answered}
	}
	for name, c := range map[string]struct {
		said    mesh.Called
		reached []string
		failed  []facts.Path
	}{
		"all with proof": {
			mesh.Called{Mesh: facts.Mesh{Reached: map[string]float64{"w1": 1, "w2": 1, "w3": 1}}, Proofs: map[string]string{"w1": by("s1"), "w2": by("s2"), "w3": by("s3")}},
			[]string{"w1", "w2", "w3"}, nil,
		},
		"without, and with another's": {
			mesh.Called{Mesh: facts.Mesh{Reached: map[string]float64{"w1": 1, "w2": 1, "w3": 1}}, Proofs: map[string]string{"w1": by("s1"), "w3": by("s2")}},
			[]string{"w1"}, []facts.Path{{Peer: "w2", To: "10.0.0.2", Port: 40001, Outcome: facts.PathUnproven, Seconds: 1}, {Peer: "w3", To: "10.0.0.3", Port: 40002, Outcome: facts.PathUnproven, Seconds: 1}},
		},
		"one that it was told as another": {
			mesh.Called{Mesh: facts.Mesh{Reached: map[string]float64{"w2": 1}}, Proofs: map[string]string{"w2": mesh.Proof("s2", "w3")}},
			nil, []facts.Path{{Peer: "w2", To: "10.0.0.2", Port: 40001, Outcome: facts.PathUnproven, Seconds: 1}},
		},
		"another answered, who proves it": {
			mesh.Called{Mesh: facts.Mesh{Failed: []facts.Path{path("w2", facts.PathMisdirected, "w4")}}, Proofs: map[string]string{"w2": by("s4")}},
			nil, []facts.Path{{Peer: "w2", To: "10.0.0.2", Outcome: facts.PathMisdirected, Answered: "w4"}},
		},
		"another's name is not the other": {
			mesh.Called{Mesh: facts.Mesh{Failed: []facts.Path{path("w2", facts.PathMisdirected, "w4"), path("w3", facts.PathMisdirected, "nobody")}}, Proofs: map[string]string{"w2": by("s2")}},
			nil, []facts.Path{{Peer: "w2", To: "10.0.0.2", Outcome: facts.PathStranger}, {Peer: "w3", To: "10.0.0.3", Outcome: facts.PathStranger}},
		},
		"one peer many times, reached besides": {
			mesh.Called{Mesh: facts.Mesh{Reached: map[string]float64{"w2": 1}, Failed: []facts.Path{path("w2", facts.PathDropped, ""), path("w2", facts.PathRefused, "")}}, Proofs: map[string]string{"w2": by("s2")}},
			nil, []facts.Path{{Peer: "w2", To: "10.0.0.2", Outcome: facts.PathDropped}},
		},
		"who was not to be called": {
			mesh.Called{Mesh: facts.Mesh{Reached: map[string]float64{"w5": 1, "w9": 1}, Failed: []facts.Path{path("w4", facts.PathDropped, "")}}, Proofs: map[string]string{"w5": by("s5")}},
			nil, nil,
		},
		"no MAC": {
			mesh.Called{Mesh: facts.Mesh{Failed: []facts.Path{{Peer: "w2", MAC: "$(reboot)"}, {Peer: "w3", MAC: "02-AA-00-00-00-01"}}}},
			nil, []facts.Path{{Peer: "w2", To: "10.0.0.2"}, {Peer: "w3", To: "10.0.0.3", MAC: "02:aa:00:00:00:01"}},
		},
	} {
		got, failed := r.believable(plan, losses{}, all[0], members{all[0], all[1], all[2], all[4]}, c.said)
		want := map[string]float64{}
		for _, peer := range c.reached {
			want[peer] = 1
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: reached (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.failed, failed); diff != "" {
			t.Errorf("%s: failed (-want +got):\n%s", name, diff)
		}
	}
}
