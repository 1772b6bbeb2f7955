// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"slices"
	"testing"

	"preflight/facts"
)

func TestAccelerators(t *testing.T) {
	nodes := []string{"/dev/nvidia0", "/dev/nvidia1"}
	held := []string{"0000:07:00.0", "0000:0b:00.0", "0000:48:00.0", "0000:4c:00.0"}
	two := &facts.NVML{Asked: true, Cards: make([]facts.Card, 2)}
	bare, docker := &facts.Host{}, &facts.Host{Container: "docker"}
	for _, c := range []struct {
		name  string
		gpu   *facts.GPU
		nvml  *facts.NVML
		host  *facts.Host
		count int
		known bool
	}{
		{"not looked at", nil, two, bare, 0, false},
		{"none", &facts.GPU{}, &facts.NVML{}, bare, 0, true},
		{"as the driver tells them", &facts.GPU{Devices: nodes, Driver: held}, two, bare, 2, true},
		{"a driver that shows none", &facts.GPU{Devices: nodes, Driver: held}, &facts.NVML{Asked: true}, bare, 0, true},
		{"a driver that fails", &facts.GPU{Driver: held}, &facts.NVML{Asked: true, Cards: two.Cards, Failure: &facts.NVMLFailure{}}, bare, 4, true},
		{"before their first use", &facts.GPU{Driver: held}, nil, bare, 4, true},
		{"a container that was given two", &facts.GPU{Devices: nodes, Driver: held}, nil, docker, 2, true},
		{"perhaps a container", &facts.GPU{Devices: nodes, Driver: held}, nil, nil, 2, true},
		{"device nodes of GPUs that are gone", &facts.GPU{Devices: nodes, Driver: []string{}}, nil, bare, 2, true},
		{"of other makers", &facts.GPU{Others: []string{"/dev/kfd node 1", "/dev/kfd node 2"}}, &facts.NVML{}, bare, 2, true},
		{"of Windows", &facts.GPU{Others: []string{"/dev/dxg"}}, nil, bare, 0, false},
		{"of Windows, whose driver answers", &facts.GPU{Others: []string{"/dev/dxg"}}, two, bare, 2, true},
	} {
		count, known := Accelerators(&facts.Node{Facts: facts.Facts{GPU: c.gpu, NVML: c.nvml, Host: c.host}})
		if count != c.count || known != c.known {
			t.Errorf("%s: %d, %v, want %d, %v", c.name, count, known, c.count, c.known)
		}
	}
}

func TestVisible(t *testing.T) {
	cards := []facts.Card{{UUID: "GPU-aa11"}, {UUID: "GPU-aa22"}, {UUID: "GPU-bb33"}}
	for _, c := range []struct {
		value string
		cards []facts.Card
		shown []int
		known bool
	}{
		{"0,1,2", cards, []int{0, 1, 2}, true},
		{"2, 0", cards, []int{2, 0}, true},
		{"0,3,1", cards, []int{0}, true}, // the first index that does not exist ends the list
		{"-1", cards, nil, true},
		{"", cards, nil, true},
		{"none", cards, nil, true},
		{"1,1", cards, nil, true},
		{"GPU-bb,GPU-aa11", cards, []int{2, 0}, true},
		{"GPU-bb,GPU-cc", cards, []int{2}, true},
		{"GPU-bb", nil, nil, false},
		{"GPU-bb", []facts.Card{{UUID: "GPU-aa11"}, {}}, nil, false},
		{"MIG-4711", cards, nil, false},
	} {
		shown, known := Visible(c.value, 3, c.cards)
		if !slices.Equal(shown, c.shown) || known != c.known {
			t.Errorf("%q: %v, %v, want %v, %v", c.value, shown, known, c.shown, c.known)
		}
	}
}

// TestExportsOfALoginNode: the exports depend on the machine on which the launch is typed.
func TestExportsOfALoginNode(t *testing.T) {
	machine := func(gpu *facts.GPU) *facts.Node {
		head := seen("NCCL_DEBUG=INFO")
		head.GPU = gpu
		return head
	}
	bare := machine(&facts.GPU{})
	for _, c := range []struct {
		name, release, launcher, accelerator string
		head                                 *facts.Node
		variable                             string
		want                                 bool
	}{
		{"no GPU", "", "pdsh", "", bare, "NCCL_DEBUG", false},
		{"no GPU, the first that takes the CPU", "0.14.1", "pdsh", "", bare, "NCCL_DEBUG", false},
		{"no GPU, before that", "0.14.0", "pdsh", "", bare, "NCCL_DEBUG", true},
		{"no GPU, cuda by name", "", "pdsh", "cuda", bare, "NCCL_DEBUG", true},
		{"a GPU", "", "pdsh", "", machine(&facts.GPU{Devices: []string{"/dev/nvidia0"}}), "NCCL_DEBUG", true},
		{"a GPU, cpu by name", "", "pdsh", "cpu", machine(&facts.GPU{Devices: []string{"/dev/nvidia0"}}), "NCCL_DEBUG", false},
		{"not looked at", "", "pdsh", "", machine(nil), "NCCL_DEBUG", true},
		{"no GPU, mvapich", "", "mvapich", "", bare, "MV2_USE_CUDA", false},
		{"nobody looked, mvapich", "", "mvapich", "", nil, "MV2_USE_CUDA", true},
	} {
		p, err := Predict(Options{Hosts: hosts(1, 1), Launcher: c.launcher, Accelerator: c.accelerator, DeepSpeed: c.release}, c.head)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(p.Exports, func(s facts.Setting) bool { return s.Name == c.variable })
		if got != c.want || p.Accelerator != cmp.Or(c.accelerator, "cuda") {
			t.Errorf("%s: %s is exported: %v; the nodes are judged for %s", c.name, c.variable, got, p.Accelerator)
		}
	}
}
