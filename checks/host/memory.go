// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// torchMemory is the smallest amount in bytes that a process takes for itself when it has imported
// torch: 200 MB with torch 2.4, 298 MB with 2.15.
const torchMemory = 192 << 20

// littleMemory is an amount in bytes that is too small to load a single Python process with torch,
// even if the machine swaps.
const littleMemory = 256 << 20

// leastMemory returns an amount in bytes with which the ranks of a node cannot even start. The
// launcher's own process imports torch too.
func leastMemory(node *facts.Node) int64 { return int64(node.Slots+1) * torchMemory }

var MemoryAvailable = checks.Check{
	ID:       "memory-available",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionMemory},
	Volatile: true,
	Run: checks.OnEach(func(view checks.View, node *facts.Node) (findings []checks.Finding) {
		total, available := usableMemory(node.Memory)
		if available < 2*leastMemory(node) || float64(available) < view.Policy.MemoryFree*float64(total) {
			amount := fmt.Sprintf("%s of %s", humanize.IBytes(uint64(available)), humanize.IBytes(uint64(total)))
			f := checks.Finding{
				Summary: "only " + amount + " memory are available",
				Got:     amount + " available",
				Want:    fmt.Sprintf("at least %.0f %% available", 100*view.Policy.MemoryFree),
				Remedy: []fix.Command{
					fix.On("ps -eo pid,user,rss,etime,cmd --sort=-rss | head").As(fix.Look),
					fix.Note("end the processes that are no longer needed"),
				},
			}
			if available < 2*leastMemory(node) {
				f.Want = fmt.Sprintf("more than %s: %d ranks and their launcher need %s to import torch, and the training itself needs memory too",
					humanize.IBytes(uint64(2*leastMemory(node))), node.Slots, humanize.IBytes(uint64(leastMemory(node))))
			}
			if available < littleMemory || available+node.Memory.SwapTotal < leastMemory(node) {
				f.Verdict, f.Want = checks.Fail, fmt.Sprintf("at least %s: %d ranks and their launcher import torch", humanize.IBytes(uint64(leastMemory(node))), node.Slots)
			}
			if total < node.Memory.Total {
				f.Summary = fmt.Sprintf("the cgroup's limit leaves %s of memory", humanize.IBytes(uint64(available)))
				f.Got = fmt.Sprintf("%s available of %s, the limit in %s; the machine has %s", humanize.IBytes(uint64(available)), humanize.IBytes(uint64(total)),
					cmp.Or(node.Memory.CgroupFile, "the cgroup"), humanize.IBytes(uint64(node.Memory.Total)))
				f.Remedy = append(remedy.RaiseMemory(node, node.Memory.CgroupFile), f.Remedy[0])
			}
			findings = append(findings, f)
		}
		if node.Memory.Overcommit == 2 && ranks.UsesNCCL(view) {
			findings = append(findings, checks.Finding{
				Summary:  "vm.overcommit_memory=2 stops CUDA from reserving the address space it needs",
				Got:      "vm.overcommit_memory=2",
				Want:     "vm.overcommit_memory=0 or 1",
				Remedy:   []fix.Command{fix.On("sudo sysctl -w vm.overcommit_memory=0")},
				WouldSee: "RuntimeError: CUDA error: out of memory (although the GPU is empty)",
			})
		}
		return findings
	}),
}

// usableMemory returns the total and the available memory in bytes. Both respect the limit of the
// cgroup. The available amount is a lower bound: the usage of a cgroup includes its page cache,
// which the kernel frees on demand.
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
			return checks.Skipped("the version of NCCL is not known on any node")
		}
		return checks.OnEach(func(v checks.View, node *facts.Node) []checks.Finding {
			incomplete := incompleteNUMA(node)
			if len(incomplete) == 0 || node.Slots < 2 || nccl.Version(node) == "" {
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
				Summary: "NUMA nodes differ, so NCCL ranks may share memory in different ways",
				Got:     strings.Join(incomplete, ", ") + "; NCCL " + nccl.Version(node),
				Want:    "memory and CPUs on every NUMA node with a GPU, or NCCL_CUMEM_HOST_ENABLE=0",
				Remedy:  []fix.Command{ranks.ExportLine(v.Launch, "NCCL_CUMEM_HOST_ENABLE", "0")},
			}}
		})(v)
	},
}

// incompleteNUMA describes the GPUs' NUMA nodes that lack CPUs or memory, if another NUMA node of
// the GPUs has both. It returns nil if all of them are equal. If the machine does not report which
// NUMA nodes its GPUs belong to, every NUMA node with CPUs counts.
//
// Source: NVIDIA/nccl 2.30.7, misc/cudawrap.cc, ncclCuMemHostEnable: the device's
// CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, and 0 if it has none; issues 2059 and 2190 for what drivers
// refuse.
func incompleteNUMA(node *facts.Node) (incomplete []string) {
	own := numaOfGPUs(node)
	whole := false
	for _, n := range node.Host.NUMA {
		switch {
		case own == nil && n.CPUs == "", own != nil && !slices.Contains(own, n.ID):
		case n.CPUs != "" && n.Bytes == 0:
			incomplete = append(incomplete, fmt.Sprintf("NUMA node %d has CPUs %s but no memory", n.ID, n.CPUs))
		case n.CPUs == "":
			incomplete = append(incomplete, fmt.Sprintf("NUMA node %d has memory but no CPUs", n.ID))
		default:
			whole = true
		}
	}
	if !whole {
		return nil
	}
	return incomplete
}

// numaOfGPUs returns the NUMA nodes of the GPUs. They come from the driver or, if the driver does
// not report them, from the PCI bus. The result is nil if neither reports them.
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
