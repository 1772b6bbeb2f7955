// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/testhosts/launchtest"
)

func TestAlone(t *testing.T) {
	machine := func(gpus, numa int, vars ...string) *facts.Node {
		node := &facts.Node{Facts: facts.Facts{Host: &facts.Host{}, GPU: &facts.GPU{}, Env: &facts.Env{Vars: launchtest.Env("environment", vars...)}}}
		for range gpus {
			node.GPU.Devices = append(node.GPU.Devices, "/dev/nvidia")
		}
		for range numa {
			node.Host.NUMA = append(node.Host.NUMA, facts.NUMA{CPUs: "0-7"})
		}
		node.Host.NUMA = append(node.Host.NUMA, facts.NUMA{Bytes: 1 << 30}) // a NUMA node with memory and without processors
		return node
	}
	for _, c := range []struct {
		name    string
		o       Options
		head    *facts.Node
		slots   []int
		include string
	}{
		{"every GPU", Options{}, machine(4, 2), []int{0, 1, 2, 3}, ""},
		{"those that are visible", Options{}, machine(4, 2, "CUDA_VISIBLE_DEVICES=2,3"), []int{0, 1, 2, 3}, "localhost:2,3"},
		{"unless an option chooses", Options{Filter: hostfile.Filter{NumGPUs: hostfile.AtMost(1)}}, machine(4, 2, "CUDA_VISIBLE_DEVICES=2,3"), []int{0, 1, 2, 3}, ""},
		{"one a NUMA node with processors", Options{Accelerator: "cpu"}, machine(4, 2), []int{0, 1}, ""},
		{"the CPU heeds CUDA's variable too", Options{Accelerator: "cpu"}, machine(4, 2, "CUDA_VISIBLE_DEVICES=1"), []int{0, 1}, "localhost:1"},
		{"without GPUs too", Options{}, machine(0, 0), []int{0}, ""},
		{"any number on the CPU", Options{Accelerator: "cpu", Filter: hostfile.Filter{NumGPUs: hostfile.AtMost(4)}}, machine(0, 2), nil, ""},
		{"nothing was counted", Options{}, &facts.Node{}, nil, ""},
	} {
		got, err := c.o.WithoutHostfile(c.head)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := []hostfile.Host{{Name: "localhost", Slots: c.slots}}
		if diff := cmp.Diff(want, got.Hosts); diff != "" || got.Filter.Include != c.include || got.MasterAddr != "127.0.0.1" {
			t.Errorf("%s: include %q, master %q, hosts (-want +got)\n%s", c.name, got.Filter.Include, got.MasterAddr, diff)
		}
	}
}

func TestAloneRefused(t *testing.T) {
	bare := &facts.Node{Facts: facts.Facts{Host: &facts.Host{}, GPU: &facts.GPU{}}}
	two := hostfile.Filter{NumNodes: hostfile.AtMost(2)}
	both := two
	both.Exclude = "w1"
	for _, c := range []struct {
		name string
		o    Options
		said string
	}{
		{"two nodes", Options{Filter: two}, "ValueError: Num nodes is >1 but no extra nodes available via hostfile"},
		{"no device before there was a fallback", Options{Filter: two, DeepSpeed: "0.14.0"}, "RuntimeError: Unable to proceed, no GPU resources available"},
		{"no device, and no CPU in its place", Options{Accelerator: "cuda"}, "RuntimeError: Unable to proceed, no GPU resources available"},
		{"the filter's own refusal comes first", Options{Filter: both}, ""},
	} {
		_, err := c.o.WithoutHostfile(bare)
		var usage *UsageError
		if errors.As(err, &usage); (usage != nil) != (c.said != "") || usage != nil && usage.Original != c.said {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSettled(t *testing.T) {
	node := func(gpus int) facts.Node {
		return facts.Node{Reached: true, Facts: facts.Facts{GPU: &facts.GPU{Devices: make([]string, gpus)}}}
	}
	says := func(name, value string, node facts.Node) facts.Node {
		node.Env = &facts.Env{Vars: []facts.Setting{{Name: name, Value: value}}}
		return node
	}
	open := Prediction{Accelerator: "cuda", AcceleratorAssumed: true}
	for _, c := range []struct {
		name  string
		p     Prediction
		nodes []facts.Node
		want  string
	}{
		{"nobody has one", open, []facts.Node{node(0), node(0)}, "cpu"},
		{"one has", open, []facts.Node{node(0), node(8)}, "cuda"},
		{"one was not looked at", open, []facts.Node{node(0), {Reached: true}}, "cuda"},
		{"one was not reached", open, []facts.Node{node(0), {}}, "cpu"},
		{"nobody was reached", open, []facts.Node{{}}, "cuda"},
		{"the ranks' environment says so", open, []facts.Node{says("DS_ACCELERATOR", "cpu", node(8)), says("DS_ACCELERATOR", "cpu", node(8))}, "cpu"},
		{"that of one rank says so", open, []facts.Node{says("DS_ACCELERATOR", "cpu", node(8)), node(8)}, "cuda"},
		{"an export says so", Prediction{Accelerator: "cuda", AcceleratorAssumed: true, Exports: []facts.Setting{{Name: "DS_ACCELERATOR", Value: "cpu"}}}, []facts.Node{node(8), node(8)}, "cpu"},
		{"torchrun's ranks may not ask", Prediction{Accelerator: "cuda", AcceleratorAssumed: true, Rendezvous: RendezvousC10d}, []facts.Node{says("DS_ACCELERATOR", "cpu", node(8))}, "cuda"},
		{"it was said", Prediction{Accelerator: "cuda"}, []facts.Node{node(0)}, "cuda"},
		{"before there was a fallback", Prediction{Accelerator: "cuda", AcceleratorAssumed: true, DeepSpeed: "0.14.0"}, []facts.Node{node(0)}, "cuda"},
	} {
		if got := c.p.Resolved(c.nodes).Accelerator; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, typed := range []bool{false, true} {
		p := open
		p.CPUTyped = typed
		if got := p.Resolved([]facts.Node{node(0)}); got.Accelerator != "cpu" || got.AcceleratorAssumed == typed {
			t.Errorf("DS_ACCELERATOR=cpu where it is typed %v: %s, nobody said so %v", typed, got.Accelerator, got.AcceleratorAssumed)
		}
		if got := p.Resolved([]facts.Node{node(8)}); got.Accelerator != "cuda" {
			t.Errorf("with accelerators: %s", got.Accelerator)
		}
	}
}
