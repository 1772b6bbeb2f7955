// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"testing"

	"preflight/facts"
)

func TestDistance(t *testing.T) {
	gpu := []string{"pci0000:3a", "0000:3a:01.0", "0000:3b:00.0", "0000:3c:00.0", "0000:4e:00.0"}
	tests := []struct {
		name string
		path []string
		numa int
		want string
	}{
		{"behind the same switch", []string{"pci0000:3a", "0000:3a:01.0", "0000:3b:00.0", "0000:3c:01.0", "0000:4f:00.0"}, 0, "PIX"},
		{"a switch further", []string{"pci0000:3a", "0000:3a:01.0", "0000:5b:00.0", "0000:5c:01.0", "0000:5f:00.0"}, 0, "PXB"},
		{"another port of the processor", []string{"pci0000:3a", "0000:3a:03.0", "0000:5f:00.0"}, 0, "PHB"},
		{"another bridge of the processor", []string{"pci0000:5a", "0000:5a:01.0", "0000:5f:00.0"}, 0, "NODE"},
		{"the other processor", []string{"pci0000:9a", "0000:9a:01.0", "0000:9f:00.0"}, 1, "SYS"},
		{"not told", nil, 0, ""},
	}
	node := &facts.Node{Facts: facts.Facts{
		GPU:  &facts.GPU{OnBus: []facts.PCIGPU{{Address: "0000:4e:00.0", Path: gpu}}},
		NVML: &facts.NVML{Cards: []facts.Card{{Address: "0000:4e:00.0"}, {Address: "0000:ff:00.0"}}},
	}}
	for _, tt := range tests {
		adapter := facts.HCA{Path: tt.path, NUMANode: tt.numa}
		if got := Distance(node, 0, adapter); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if got := Distance(node, 1, adapter); got != "" {
			t.Errorf("%s: a GPU that is not on the bus is %q away", tt.name, got)
		}
	}
	for _, numa := range [][2]int{{-1, -1}, {0, -1}, {-1, 0}} {
		node.GPU.OnBus[0].NUMANode = numa[0]
		if got := Distance(node, 0, facts.HCA{Path: tests[4].path, NUMANode: numa[1]}); got != "" {
			t.Errorf("on NUMA nodes %v, -1 for not told: %q", numa, got)
		}
		if got := Distance(node, 0, facts.HCA{Path: tests[2].path, NUMANode: numa[1]}); got != "PHB" {
			t.Errorf("under one bridge, on NUMA nodes %v: %q", numa, got)
		}
	}
}
