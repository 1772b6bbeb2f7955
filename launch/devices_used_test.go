// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/testhosts/launchtest"
)

func TestGPUsUsed(t *testing.T) {
	of := func(slots ...int) []hostfile.Host { return []hostfile.Host{{Name: "w1", Slots: slots}} }
	for _, c := range []struct {
		name    string
		p       Prediction
		visible string // CUDA_VISIBLE_DEVICES
		slots   []int  // used slots as the ranks number them
		want    []int  // indexes of the used GPUs, out of four
	}{
		{"slots", Prediction{Launcher: "pdsh", Hosts: of(2, 3)}, "", []int{2, 3}, []int{2, 3}},
		{"slots that launch.py sets", Prediction{Launcher: "pdsh", Hosts: of(2, 3)}, "0", []int{2, 3}, []int{2, 3}},
		{"more slots than GPUs", Prediction{Launcher: "pdsh", Hosts: of(3, 4)}, "", []int{3, 4}, []int{3}},
		{"on this machine alone", Prediction{Local: true, Hosts: []hostfile.Host{{Name: "localhost", Slots: []int{1}}}}, "", []int{1}, []int{1}},
		{"nobody says", Prediction{Launcher: "pdsh", Hosts: of()}, "", nil, []int{0, 1, 2, 3}},
		{"another host", Prediction{Launcher: "pdsh", Hosts: []hostfile.Host{{Name: "w2", Slots: []int{0}}}}, "", nil, []int{0, 1, 2, 3}},
		{"nothing", Prediction{Launcher: "pdsh", Hosts: []hostfile.Host{{Name: "w1", Slots: []int{}}}}, "", []int{}, []int{}},
		{"torchrun", Prediction{Rendezvous: "c10d", Script: "train.py", PerNode: "2", Hosts: of()}, "", []int{0, 1}, []int{0, 1}},
		{"torchrun's default", Prediction{Rendezvous: "c10d", Script: "train.py", Hosts: of(0, 1)}, "", []int{0}, []int{0}},
		{"as many as torchrun finds", Prediction{Rendezvous: "c10d", Script: "train.py", PerNode: "gpu", Hosts: of(0, 1)}, "", nil, []int{0, 1, 2, 3}},
		{"as many as torchrun finds of these", Prediction{Rendezvous: "c10d", Script: "train.py", PerNode: "auto", Hosts: of()}, "3,1", nil, []int{3, 1}},
		{"torchrun of these", Prediction{Rendezvous: "c10d", Script: "train.py", PerNode: "2", Hosts: of()}, "3,2,1", []int{0, 1}, []int{3, 2}},
		{"by MPI of these", Prediction{Launcher: "openmpi", Hosts: of(0, 1)}, "2,3", []int{0, 1}, []int{2, 3}},
		{"parts of GPUs", Prediction{Launcher: "openmpi", Hosts: of(0, 1)}, "MIG-1", []int{0, 1}, []int{0, 1}},
	} {
		node := &facts.Node{Name: "w1", Facts: facts.Facts{NVML: &facts.NVML{Cards: make([]facts.Card, 4)}}}
		if c.visible != "" {
			node.Env = &facts.Env{Vars: launchtest.Env("environment", "CUDA_VISIBLE_DEVICES="+c.visible)}
		}
		if diff := cmp.Diff(c.slots, c.p.SlotsUsed()(node)); diff != "" {
			t.Errorf("%s, slots (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.want, c.p.GPUsUsed()(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestGPUsUsedOfAMD: ROCr's variable applies first, and HIP's variable selects from the remaining
// GPUs. CUDA's variable counts if HIP's is empty. launch.py sets CUDA's variable if it starts the
// ranks.
func TestGPUsUsedOfAMD(t *testing.T) {
	launchPy, mpi := Prediction{Launcher: "pdsh"}, Prediction{Launcher: "openmpi"}
	for name, c := range map[string]struct {
		p    Prediction
		env  []string
		want []int // indexes of the used GPUs, out of four
	}{
		"none":                    {mpi, nil, []int{0, 1, 2, 3}},
		"HIP's":                   {mpi, []string{"HIP_VISIBLE_DEVICES=3,1", "CUDA_VISIBLE_DEVICES=0"}, []int{3, 1}},
		"HIP's beside launch.py":  {launchPy, []string{"HIP_VISIBLE_DEVICES=3,1"}, []int{3, 1}},
		"CUDA's":                  {mpi, []string{"HIP_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=2"}, []int{2}},
		"CUDA's beside launch.py": {launchPy, []string{"CUDA_VISIBLE_DEVICES=2"}, []int{0, 1, 2, 3}},
		"ROCr's, then HIP's":      {launchPy, []string{"ROCR_VISIBLE_DEVICES=3,2,1", "HIP_VISIBLE_DEVICES=2,0"}, []int{1, 3}},
		"by UUID":                 {mpi, []string{"ROCR_VISIBLE_DEVICES=GPU-1901e5bd3a0fcc02"}, []int{2}},
	} {
		node := &facts.Node{Name: "w1", Facts: facts.Facts{NVML: &facts.NVML{Source: facts.SourceAMD}, Env: &facts.Env{Vars: launchtest.Env("environment", c.env...)}}}
		for i := range 4 {
			node.NVML.Cards = append(node.NVML.Cards, facts.Card{Index: i, UUID: fmt.Sprintf("GPU-1901e5bd3a0fcc%02x", i)})
		}
		if diff := cmp.Diff(c.want, c.p.GPUsUsed()(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
