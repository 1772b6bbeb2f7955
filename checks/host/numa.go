package host

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

var NUMAMemory = checks.Check{
	ID:       "numa-memory",
	Title:    "the NUMA nodes of each machine are alike where NCCL's ranks probe them one by one",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionHost, facts.SectionPython},
	Volatile: true,
	Doc: "Since 2.26.3 every NCCL process tries for itself whether host memory can be had through cuMem on its own NUMA node. Where a machine has " +
		"a NUMA node with processors but no memory, or with memory but no processors, its ranks come to different answers, take different paths, " +
		"and one attaches to a segment the other never made: what looks like a stale file in /dev/shm (NVIDIA/nccl issue 2190). " +
		"NCCL_CUMEM_HOST_ENABLE=0 makes all ranks take the same path.",
	WouldSee: "Error while attaching to shared memory segment /dev/shm/nccl-… (size 0), error: No such file or directory (2)",
	Run: func(v checks.View) []checks.Finding {
		if v.Launch.Accelerator == "cpu" {
			return checks.Skipped("accelerator cpu: NCCL is not used")
		}
		if ranks.FleetNCCL(v) == "" {
			return checks.Skipped("no node has an NCCL that says its version")
		}
		var findings []checks.Finding
		for _, node := range v.Nodes {
			odd, verdict := unlikeNUMA(node.Host.NUMA)
			if len(odd) == 0 || node.Slots < 2 || nccl.Version(node) == "" {
				continue
			}
			if !nccl.CuMemHostProbed(node.Python.NCCL[0], driverCUDA(node), launch.RankEnv(node.Env, v.Launch.Exports)) {
				continue
			}
			findings = append(findings, checks.Finding{
				Verdict: verdict,
				Nodes:   []string{node.Name},
				Summary: "NUMA nodes are unlike, so NCCL's ranks may disagree on where to share memory",
				Got:     strings.Join(odd, ", ") + "; NCCL " + nccl.Version(node),
				Want:    "memory and processors on every NUMA node, or NCCL_CUMEM_HOST_ENABLE=0",
				Remedy:  []fix.Command{ranks.ExportLine(v.Launch, "NCCL_CUMEM_HOST_ENABLE", "0")},
			})
		}
		return findings
	},
}

// unlikeNUMA says which NUMA nodes lack processors or memory that others have.
// Memory without processors is normal where it belongs to a device (Grace
// Hopper, CXL) and no rank is bound to it, so alone it is a warning.
func unlikeNUMA(nodes []facts.NUMA) (odd []string, verdict checks.Verdict) {
	verdict = checks.Warn
	for _, n := range nodes {
		switch {
		case n.CPUs != "" && n.Bytes == 0:
			odd = append(odd, fmt.Sprintf("NUMA node %d has processors %s but no memory", n.ID, n.CPUs))
			verdict = checks.Fail
		case n.CPUs == "" && n.Bytes > 0:
			odd = append(odd, fmt.Sprintf("NUMA node %d has memory but no processors", n.ID))
		}
	}
	return odd, verdict
}

// driverCUDA is the newest CUDA that the driver of a node runs by its own account
// ("12.4"), "" where it was not told.
func driverCUDA(node *facts.Node) string {
	if node.NVML == nil {
		return ""
	}
	return node.NVML.CUDA
}
