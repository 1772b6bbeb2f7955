package host

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

// littleMemory is what not even one python with torch can be loaded into.
const littleMemory = 256 << 20

var MemoryAvailable = checks.Check{
	ID:       "memory-available",
	Title:    "most of the memory of every node is available",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionMemory},
	Volatile: true,
	Doc: "Compares what is available with what there is (policy memory_free, a share), within the cgroup's limit where that is tighter. A node " +
		"whose memory is taken before the launch usually still runs the last one. Strict overcommit (vm.overcommit_memory=2) is warned of too: " +
		"CUDA reserves far more address space than it uses.",
	WouldSee: "exits with return code = -9 (the kernel's out-of-memory killer)",
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		for _, node := range v.Nodes {
			total, available := usableMemory(node.Memory)
			if available < littleMemory || float64(available) < v.Policy.MemoryFree*float64(total) {
				finding := checks.Finding{
					Nodes:   []string{node.Name},
					Summary: "little memory is available",
					Got:     fmt.Sprintf("%s of %s", humanize.IBytes(uint64(available)), humanize.IBytes(uint64(total))),
					Want:    fmt.Sprintf("at least %.0f %%", 100*v.Policy.MemoryFree),
					Remedy:  []fix.Command{fix.On("ps -eo pid,user,rss,etime,cmd --sort=-rss | head")},
				}
				if available < littleMemory {
					finding.Verdict, finding.Summary = checks.Fail, "hardly any memory is available"
				}
				findings = append(findings, finding)
			}
			if node.Memory.Overcommit == 2 && v.Launch.Accelerator != "cpu" {
				findings = append(findings, checks.Finding{
					Nodes:    []string{node.Name},
					Summary:  "the kernel refuses to overcommit memory, and CUDA reserves more address space than there is memory",
					Got:      "vm.overcommit_memory=2",
					Want:     "0 or 1",
					Remedy:   []fix.Command{fix.On("sudo sysctl -w vm.overcommit_memory=0")},
					WouldSee: "RuntimeError: CUDA error: out of memory (although the GPU is empty)",
				})
			}
		}
		return findings
	},
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
