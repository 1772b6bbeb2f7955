package checks

import (
	"slices"

	"preflight/facts"
	"preflight/launch"

	"github.com/dustin/go-humanize"
)

// littleMemlock is what RDMA cannot start with: NCCL registers some tens of
// MiB of buffers for every peer and channel.
const littleMemlock = 1 << 30

var memlockLimit = Check{
	ID:       "memlock-limit",
	Title:    "ranks may lock as much memory as RDMA wants",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionLimits, facts.SectionIB},
	Doc: "RDMA adapters write into memory that must not move, and the kernel counts it against RLIMIT_MEMLOCK of the ssh session the ranks are " +
		"started in, unless they have CAP_IPC_LOCK, as root has outside containers. NVIDIA asks for unlimited. Without RDMA devices nothing in a " +
		"launch locks memory to speak of: the CUDA driver pins its own outside the limit.",
	WouldSee: "Call to ibv_reg_mr failed",
	Run: func(v View) []Finding {
		if v.Launch.Accelerator == "cpu" {
			return skip("accelerator cpu: gloo talks TCP and locks no memory")
		}
		rdma := slices.DeleteFunc(slices.Clone(v.Nodes), func(n *facts.Node) bool { return !usesRDMA(n, v) })
		if len(rdma) == 0 {
			return skip("no node has an RDMA device that NCCL may use, and nothing else in a launch locks much memory")
		}
		var findings []Finding
		for _, node := range rdma {
			soft := node.Limits.MemLock.Soft
			exempt := node.Host != nil && node.Host.User == "root" && node.Host.Container == ""
			if soft < 0 || exempt {
				continue
			}
			finding := Finding{
				Nodes:   []string{node.Name},
				Summary: "the limit on locked memory is too low for RDMA",
				Got:     humanize.IBytes(uint64(soft)),
				Want:    "unlimited",
				Fix:     raiseMemlock(node),
			}
			if soft >= littleMemlock {
				finding.Verdict, finding.Summary = Warn, "the limit on locked memory may be too low for RDMA"
			}
			findings = append(findings, finding)
		}
		return findings
	},
}

// usesRDMA is whether NCCL will find a device on the node and may use it.
func usesRDMA(node *facts.Node, v View) bool {
	for _, s := range launch.RankEnv(node.Env, v.Launch.Exports) {
		if s.Name == "NCCL_IB_DISABLE" && s.Value != "" && s.Value != "0" {
			return false
		}
	}
	return len(node.IB.Devices) > 0
}

func raiseMemlock(node *facts.Node) []string {
	container := ""
	if node.Host != nil {
		container = node.Host.Container
	}
	switch container {
	case "docker", "podman":
		return []string{container + " run --ulimit memlock=-1 …   # start the container of {node} anew with this option"}
	case "kubernetes":
		return []string{`securityContext: {capabilities: {add: ["IPC_LOCK"]}}   # in the pod's spec`}
	}
	return []string{
		"{ssh} 'echo \"* - memlock unlimited\" | sudo tee /etc/security/limits.d/90-memlock.conf'",
		"{ssh} ulimit -l   # in a new session: unlimited",
	}
}
