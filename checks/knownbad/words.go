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
	"preflight/hostfile"
	"preflight/launch/nccl"
)

// word is a property that a condition can name. of returns the values of a node. values is empty if
// the node does not have the property. If the values are not known, unseen is the reason.
type word struct {
	Says string // documentation for authors of entries
	of   func(view checks.View, node *facts.Node) (values []string, unseen string)
	// launch replaces of if the values are the same on every node.
	launch func(view checks.View) []string
}

// section returns the function that reads a word's values from one section. If a node lacks the
// section, the function returns the reason.
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

// one returns a slice with a single value, or nil if the value is "".
func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

func host(of func(*facts.Host) string) func(checks.View, *facts.Node) ([]string, string) {
	return section(facts.SectionHost, func(_ checks.View, node *facts.Node) []string { return one(of(node.Host)) })
}

// card returns the function that reads a word's values from the GPUs, one value for each GPU.
func card(of func(facts.Card) string) func(checks.View, *facts.Node) ([]string, string) {
	return section(facts.SectionNVML, func(_ checks.View, node *facts.Node) (values []string) {
		for _, c := range node.NVML.Cards {
			values = append(values, one(of(c))...)
		}
		return values
	})
}

// adapter returns the function that reads a word's values from the RDMA devices, one value for each
// device.
func adapter(of func(facts.HCA) string) func(checks.View, *facts.Node) ([]string, string) {
	return section(facts.SectionIB, func(_ checks.View, node *facts.Node) (values []string) {
		for _, device := range node.IB.Devices {
			values = append(values, one(of(device))...)
		}
		return values
	})
}

// unlike returns the function that counts the different values in the launch.
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

// Words maps names to the properties that a condition can name. In addition, "pip:NAME" is a Python
// package and "env:NAME" is a variable of the ranks.
var Words = map[string]word{
	"nccl": {"the NCCL that torch loads", section(facts.SectionPython, func(view checks.View, node *facts.Node) []string {
		isRCCL := len(node.Python.NCCL) > 0 && node.Python.NCCL[0].HIP != "" // RCCL uses NCCL's version numbers but has other defects
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
	"cpu":           {"the name of the CPU", host(func(h *facts.Host) string { return h.CPU.Model }), nil},
	"driver":        {"the loaded NVIDIA driver", section(facts.SectionNVML, nvidiaDriver), nil},
	"gpu":           {"the name of a GPU", card(func(c facts.Card) string { return c.Name }), nil},
	"capability":    {"the compute capability of a GPU", card(func(c facts.Card) string { return c.Capability }), nil},
	"nvlink-domain": {"yes, if a GPU is in an NVLink domain of several nodes", card(inDomain), nil},
	"nvlink":        {"what the NVLinks of a GPU lead to: gpu, switch", card(nvlink), nil},
	"nvls":          {"yes, if NCCL uses NVLink SHARP: Hopper or later with NVSwitch, unless NCCL_NVLS_ENABLE is 0", nvls, nil},
	"adapter":       {"the kernel driver of an RDMA device: mlx5_core, efa, irdma", adapter(func(d facts.HCA) string { return d.Driver }), nil},
	"firmware":      {"the firmware of an RDMA device", adapter(func(d facts.HCA) string { return d.Firmware }), nil},
	"link":          {"the link layer of an active RDMA port: InfiniBand or Ethernet", section(facts.SectionIB, links), nil},
	"stack":         {"the soft limit on the stack in bytes, or unlimited", section(facts.SectionLimits, stack), nil},
	"nodes":         {"the number of nodes of the launch", nil, func(view checks.View) []string { return one(strconv.Itoa(len(view.All))) }},
	"ranks":         {"the number of ranks of the launch", nil, func(view checks.View) []string { return one(strconv.Itoa(view.Launch.WorldSize())) }},
	"ranks-each":    {"the number of ranks on the node", func(_ checks.View, node *facts.Node) ([]string, string) { return one(strconv.Itoa(node.Slots)), "" }, nil},
	"program":       {"the program that starts the ranks: deepspeed, torchrun, accelerate", nil, func(view checks.View) []string { return one(view.Launch.Program) }},
	"rendezvous":    {"torchrun's rendezvous: static, c10d", nil, func(view checks.View) []string { return one(view.Launch.Rendezvous) }},
	"accelerator":   {"cuda or cpu", nil, func(view checks.View) []string { return one(view.Launch.Accelerator) }},
	"zero":          {"the ZeRO stage of DeepSpeed's configuration", nil, zero},
	"offload":       {"the device that ZeRO offloads to: cpu, nvme", nil, offload},
	"unlike-cpus":   {"the number of different CPU makers among the nodes", nil, unlike(cpuMaker)},
	"unlike-gpus":   {"the number of different GPU models among the nodes", nil, unlike(firstGPU)},
	"unlike-slots":  {"the number of different numbers of ranks on the nodes", nil, unlike(func(n *facts.Node) string { return strconv.Itoa(n.Slots) })},
}

func inDomain(c facts.Card) string {
	if c.Fabric != nil && c.Fabric.Cluster != "" {
		return "yes"
	}
	return ""
}

func nvlink(c facts.Card) string {
	if c.NVLinks == nil {
		return ""
	}
	return c.NVLinks.RemoteKind
}

// nvls returns "yes" if NCCL will reduce data in the NVSwitches of a node.
//
// Source: NVIDIA/nccl 2.17 to 2.30, transport/nvls.cc, nvlsSupport; docs, NCCL_NVLS_ENABLE.
func nvls(view checks.View, node *facts.Node) (values []string, unseen string) {
	if enabled, isNumber := nccl.Number(ranks.Env(view, node).Get("NCCL_NVLS_ENABLE").Value); isNumber && enabled == 0 {
		return nil, ""
	}
	return card(func(c facts.Card) string {
		if nvlink(c) == "switch" && c.Capability != "" && !hostfile.Before(c.Capability, "9") {
			return "yes"
		}
		return ""
	})(view, node)
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

// nvidiaDriver returns the version of the NVIDIA driver. It returns no value for AMD's driver,
// whose version numbers are unrelated.
func nvidiaDriver(_ checks.View, node *facts.Node) []string {
	if node.NVML.Source == facts.SourceAMD {
		return nil
	}
	return one(node.NVML.Driver)
}

// cpuMaker returns the first word of the CPU's name, such as "AMD" or "Intel(R)".
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

// lookUp returns the word with a name, and whether there is one. The names include "pip:NAME" and
// "env:NAME".
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

// names returns the names of all words, sorted.
func names() []string { return slices.Sorted(maps.Keys(Words)) }
