// SPDX-License-Identifier: Apache-2.0

package knownbad

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/nccl"
)

// word is what a condition is about: its values on a node, none for what is not there, or why they
// are not known.
type word struct {
	Says string // for whoever writes an entry
	of   func(view checks.View, node *facts.Node) (values []string, unseen string)
	// launch is in place of it for what is the same on every node.
	launch func(view checks.View) []string
}

// section has a word tell why its section is missing.
func section(s facts.Section, of func(checks.View, *facts.Node) []string) func(checks.View, *facts.Node) ([]string, string) {
	return func(view checks.View, node *facts.Node) ([]string, string) {
		if node.Has(s) {
			return of(view, node), ""
		}
		if _, never := view.NotTried[s]; never {
			return nil, ""
		}
		return nil, checks.Check{Needs: []facts.Section{s}}.Missing(node)
	}
}

// one is a single value, none where it is empty.
func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

func host(of func(*facts.Host) string) func(checks.View, *facts.Node) ([]string, string) {
	return section(facts.SectionHost, func(_ checks.View, node *facts.Node) []string { return one(of(node.Host)) })
}

// card is of each GPU.
func card(of func(facts.Card) string) func(checks.View, *facts.Node) ([]string, string) {
	return section(facts.SectionNVML, func(_ checks.View, node *facts.Node) (values []string) {
		for _, c := range node.NVML.Cards {
			values = append(values, one(of(c))...)
		}
		return values
	})
}

// adapter is of each RDMA device.
func adapter(of func(facts.HCA) string) func(checks.View, *facts.Node) ([]string, string) {
	return section(facts.SectionIB, func(_ checks.View, node *facts.Node) (values []string) {
		for _, device := range node.IB.Devices {
			values = append(values, one(of(device))...)
		}
		return values
	})
}

// unlike is how many different values the nodes of the launch have.
func unlike(of func(*facts.Node) string) func(checks.View) []string {
	return func(view checks.View) []string {
		seen := map[string]bool{}
		for _, node := range view.Everywhere() {
			if value := of(node); value != "" {
				seen[value] = true
			}
		}
		return []string{strconv.Itoa(len(seen))}
	}
}

// Words are those that a condition may be about. What stands behind "pip:" is a python package,
// and behind "env:" a variable of the ranks.
var Words = map[string]word{
	"nccl": {"the NCCL that torch loads", section(facts.SectionPython, func(view checks.View, node *facts.Node) []string {
		isRCCL := len(node.Python.NCCL) > 0 && node.Python.NCCL[0].HIP != "" // with NCCL's numbers, and faults of its own
		if !ranks.UsesNCCL(view) || isRCCL {
			return nil
		}
		return one(nccl.Version(node))
	}), nil},
	"torch-cuda": {"the CUDA that torch was built with", section(facts.SectionPython, func(_ checks.View, node *facts.Node) []string {
		if node.Python.Torch == nil {
			return nil
		}
		return one(node.Python.Torch.CUDA)
	}), nil},
	"python":        {"the interpreter of the launch", section(facts.SectionPython, func(_ checks.View, node *facts.Node) []string { return one(node.Python.Version) }), nil},
	"kernel":        {"the kernel's release", host(func(h *facts.Host) string { return h.Kernel }), nil},
	"arch":          {"the architecture: x86_64, aarch64", host(func(h *facts.Host) string { return h.Arch }), nil},
	"os":            {"the name of the system", host(func(h *facts.Host) string { return h.OS }), nil},
	"cpu":           {"the processor's name", host(func(h *facts.Host) string { return h.CPU.Model }), nil},
	"driver":        {"the loaded NVIDIA driver", section(facts.SectionNVML, nvidiaDriver), nil},
	"gpu":           {"the name of a GPU", card(func(c facts.Card) string { return c.Name }), nil},
	"capability":    {"the compute capability of a GPU", card(func(c facts.Card) string { return c.Capability }), nil},
	"nvlink-domain": {"yes, where a GPU is in an NVLink domain of several nodes", card(inDomain), nil},
	"adapter":       {"the kernel driver of an RDMA device: mlx5_core, efa, irdma", adapter(func(d facts.HCA) string { return d.Driver }), nil},
	"firmware":      {"the firmware of an RDMA device", adapter(func(d facts.HCA) string { return d.Firmware }), nil},
	"link":          {"InfiniBand or Ethernet, of an active port of an RDMA device", section(facts.SectionIB, links), nil},
	"stack":         {"the soft limit on the stack in bytes, or unlimited", section(facts.SectionLimits, stack), nil},
	"nodes":         {"how many nodes the launch has", nil, func(view checks.View) []string { return one(strconv.Itoa(len(view.All))) }},
	"ranks":         {"how many ranks the launch has", nil, func(view checks.View) []string { return one(strconv.Itoa(view.Launch.WorldSize())) }},
	"ranks-each":    {"how many ranks the node has", func(_ checks.View, node *facts.Node) ([]string, string) { return one(strconv.Itoa(node.Slots)), "" }, nil},
	"program":       {"what starts the ranks: deepspeed, torchrun, accelerate", nil, func(view checks.View) []string { return one(view.Launch.Program) }},
	"rendezvous":    {"how torchrun's nodes meet: static, c10d", nil, func(view checks.View) []string { return one(view.Launch.Rendezvous) }},
	"accelerator":   {"cuda or cpu", nil, func(view checks.View) []string { return one(view.Launch.Accelerator) }},
	"zero":          {"the ZeRO stage of DeepSpeed's configuration", nil, zero},
	"offload":       {"where ZeRO offloads to: cpu, nvme", nil, offload},
	"unlike-cpus":   {"how many makers of processors the nodes have", nil, unlike(cpuMaker)},
	"unlike-gpus":   {"how many kinds of GPU the nodes have", nil, unlike(firstGPU)},
}

func inDomain(c facts.Card) string {
	if c.Fabric != nil && c.Fabric.Cluster != "" {
		return "yes"
	}
	return ""
}

func links(_ checks.View, node *facts.Node) (values []string) {
	for _, device := range node.IB.Devices {
		for _, port := range device.Ports {
			if port.State == "ACTIVE" {
				values = append(values, port.LinkLayer)
			}
		}
	}
	return values
}

func stack(_ checks.View, node *facts.Node) []string {
	if node.Limits.Stack.Soft < 0 {
		return []string{"unlimited"}
	}
	return []string{strconv.FormatInt(node.Limits.Stack.Soft, 10)}
}

func zero(view checks.View) []string {
	if view.Launch.Config == nil {
		return nil
	}
	return one(strconv.Itoa(view.Launch.Config.ZeroStage))
}

func offload(view checks.View) (devices []string) {
	if view.Launch.Config != nil {
		for _, o := range view.Launch.Config.Offload {
			devices = append(devices, o.Device)
		}
	}
	return devices
}

// nvidiaDriver is none where the driver is AMD's, which counts from somewhere else.
func nvidiaDriver(_ checks.View, node *facts.Node) []string {
	if node.NVML.Source == facts.SourceAMD {
		return nil
	}
	return one(node.NVML.Driver)
}

// cpuMaker is the first word of a processor's name: AMD, Intel(R).
func cpuMaker(node *facts.Node) string {
	if node.Host == nil {
		return ""
	}
	maker, _, _ := strings.Cut(node.Host.CPU.Model, " ")
	return maker
}

func firstGPU(node *facts.Node) string {
	if node.NVML == nil || len(node.NVML.Cards) == 0 {
		return ""
	}
	return node.NVML.Cards[0].Name
}

// lookUp finds a word, "pip:NAME" and "env:NAME" among them.
func lookUp(name string) (word, bool) {
	if w, known := Words[name]; known {
		return w, true
	}
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case rest == "":
		return word{}, false
	case kind == "pip":
		return word{of: section(facts.SectionPython, func(_ checks.View, node *facts.Node) []string { return one(node.Python.Packages[rest]) })}, true
	case kind == "env":
		return word{of: section(facts.SectionEnv, func(view checks.View, node *facts.Node) []string { return one(ranks.Env(view, node).Get(rest).Value) })}, true
	}
	return word{}, false
}

// names are all words, sorted.
func names() []string { return slices.Sorted(maps.Keys(Words)) }
