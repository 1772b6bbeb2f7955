// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// littleMemory is what not even one python with torch can be loaded into.
const littleMemory = 256 << 20

var MemoryAvailable = checks.Check{
	ID:       "memory-available",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionMemory},
	Volatile: true,
	Run: checks.OnEach(func(view checks.View, node *facts.Node) (findings []checks.Finding) {
		total, available := usableMemory(node.Memory)
		if available < littleMemory || float64(available) < view.Policy.MemoryFree*float64(total) {
			f := checks.Finding{
				Summary: "little memory is available",
				Got:     fmt.Sprintf("%s of %s", humanize.IBytes(uint64(available)), humanize.IBytes(uint64(total))),
				Want:    fmt.Sprintf("at least %.0f %%", 100*view.Policy.MemoryFree),
				Remedy:  []fix.Command{fix.On("ps -eo pid,user,rss,etime,cmd --sort=-rss | head")},
			}
			if available < littleMemory {
				f.Verdict, f.Summary = checks.Fail, "hardly any memory is available"
			}
			findings = append(findings, f)
		}
		if node.Memory.Overcommit == 2 && ranks.UsesNCCL(view) {
			findings = append(findings, checks.Finding{
				Summary:  "the kernel refuses to overcommit memory, and CUDA reserves more address space than there is memory",
				Got:      "vm.overcommit_memory=2",
				Want:     "0 or 1",
				Remedy:   []fix.Command{fix.On("sudo sysctl -w vm.overcommit_memory=0")},
				WouldSee: "RuntimeError: CUDA error: out of memory (although the GPU is empty)",
			})
		}
		return findings
	}),
}

// usableMemory is what there is and what is available, in bytes, within the
// cgroup's limit. A cgroup's use counts its page cache, which the kernel gives
// back when asked, so what is left of the limit is a lower bound.
func usableMemory(m *facts.Memory) (total, available int64) {
	total, available = m.Total, m.Available
	if m.CgroupLimit != nil && *m.CgroupLimit < total {
		total = *m.CgroupLimit
		if m.CgroupUsed != nil {
			available = min(available, max(0, total-*m.CgroupUsed))
		}
	}
	return total, available
}

var NUMAMemory = checks.Check{
	ID:       "numa-memory",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionHost, facts.SectionPython},
	Volatile: true,
	Run: func(v checks.View) []checks.Finding {
		if !ranks.UsesNCCL(v) {
			return checks.Skipped("accelerator cpu: NCCL is not used")
		}
		if ranks.FleetNCCL(v) == "" {
			return checks.Skipped("no node has an NCCL that says its version")
		}
		return checks.OnEach(func(v checks.View, node *facts.Node) []checks.Finding {
			odd := unlikeNUMA(node)
			if len(odd) == 0 || node.Slots < 2 || nccl.Version(node) == "" {
				return nil
			}
			driverCUDA := ""
			if node.NVML != nil {
				driverCUDA = node.NVML.CUDA
			}
			if !nccl.CuMemHostProbed(node.Python.NCCL[0], driverCUDA, launch.RankEnv(node.Env, v.Launch.Exports)) {
				return nil
			}
			return []checks.Finding{{
				Summary: "NUMA nodes of GPUs are unlike, so NCCL's ranks may disagree on where to share memory",
				Got:     strings.Join(odd, ", ") + "; NCCL " + nccl.Version(node),
				Want:    "memory and processors on every NUMA node, or NCCL_CUMEM_HOST_ENABLE=0",
				Remedy:  []fix.Command{ranks.ExportLine(v.Launch, "NCCL_CUMEM_HOST_ENABLE", "0")},
			}}
		})(v)
	},
}

// unlikeNUMA says which of the GPUs' NUMA nodes lack processors or memory that others of
// them have, nil where they are alike. Of a machine that does not tell where its GPUs are, they
// may be on any node with processors.
//
// Source: NVIDIA/nccl 2.30.7, misc/cudawrap.cc, ncclCuMemHostEnable: the device's
// CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, and 0 where it has none; issues 2059 and 2190 for what
// drivers refuse.
func unlikeNUMA(node *facts.Node) (odd []string) {
	own := numaOfGPUs(node)
	whole := false
	for _, n := range node.Host.NUMA {
		switch {
		case own == nil && n.CPUs == "", own != nil && !slices.Contains(own, n.ID):
		case n.CPUs != "" && n.Bytes == 0:
			odd = append(odd, fmt.Sprintf("NUMA node %d has processors %s but no memory", n.ID, n.CPUs))
		case n.CPUs == "":
			odd = append(odd, fmt.Sprintf("NUMA node %d has memory but no processors", n.ID))
		default:
			whole = true
		}
	}
	if !whole {
		return nil
	}
	return odd
}

// numaOfGPUs are the NUMA nodes beside GPUs, by the driver's word, else by the bus's; nil
// for not told.
func numaOfGPUs(node *facts.Node) (own []int) {
	if node.NVML != nil {
		for _, card := range node.NVML.Cards {
			if card.NUMANode != nil {
				own = append(own, *card.NUMANode)
			}
		}
	}
	if own == nil && node.GPU != nil {
		for _, gpu := range node.GPU.OnBus {
			own = append(own, max(0, gpu.NUMANode))
		}
	}
	return own
}
