package checks

import (
	"slices"

	"github.com/dustin/go-humanize"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// littleMemlock is what RDMA cannot start with: NCCL registers some tens of
// MiB of buffers for every peer and channel.
const littleMemlock = 1 << 30

var memlockLimit = Check{
	ID:       "memlock-limit",
	Title:    "ranks may lock as much memory as RDMA wants",
	Severity: Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionLimits, facts.SectionIB},
	Doc: "RDMA adapters write into memory that must not move, and the kernel counts it against RLIMIT_MEMLOCK of the ssh session the ranks are " +
		"started in, unless they have CAP_IPC_LOCK, as root has outside containers. NVIDIA asks for unlimited. Without RDMA devices nothing in a " +
		"launch locks memory to speak of: the CUDA driver pins its own outside the limit.",
	WouldSee: "Call to ibv_reg_mr failed",
	Run: func(v View) []Finding {
		rdma := slices.DeleteFunc(slices.Clone(v.Nodes), func(n *facts.Node) bool { return v.Launch.Accelerator == "cpu" || !usesRDMA(n, v) })
		if len(rdma) == 0 {
			return unneededMemlock(v)
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
				Got:     memlockText(soft),
				Want:    "unlimited",
				Remedy:  raiseMemlock(node),
			}
			if soft >= littleMemlock {
				finding.Verdict, finding.Summary = Warn, "the limit on locked memory may be too low for RDMA"
			}
			findings = append(findings, finding)
		}
		return findings
	},
}

// unneededMemlock is the answer where nothing locks memory to speak of: the
// limit matters to nobody today, but a node that has a lower one than most was
// set up differently, and fails on the day the fleet gets adapters.
func unneededMemlock(v View) []Finding {
	var findings []Finding
	for _, d := range compare(among(v.Nodes, "memlock", func(n *facts.Node) string { return memlockText(n.Limits.MemLock.Soft) })) {
		if d.Split {
			continue
		}
		finding := d.finding("limits on locked memory")
		finding.Verdict = Warn
		odd := slices.IndexFunc(v.Nodes, func(n *facts.Node) bool { return n.Name == d.Nodes[0] })
		finding.Remedy = raiseMemlock(v.Nodes[odd])
		findings = append(findings, finding)
	}
	switch {
	case len(findings) > 0:
		return findings
	case v.Launch.Accelerator == "cpu":
		return skip("accelerator cpu: gloo talks TCP and locks no memory")
	}
	return skip("no node has an RDMA device that NCCL may use, and nothing else in a launch locks much memory")
}

func memlockText(soft int64) string {
	if soft < 0 {
		return "unlimited"
	}
	return humanize.IBytes(uint64(soft))
}

// usesRDMA is whether ranks of the node will lock memory for adapters, or will as soon
// as what keeps them from opening those is out of the way.
func usesRDMA(node *facts.Node, v View) bool {
	network := ncclNetwork(v, node)
	switch network.Obstacle {
	case launch.ObstacleDisabled, launch.ObstacleNoAdapter, launch.ObstacleInactive, launch.ObstacleHCA:
		return network.Plugin != "" && len(node.IB.Devices) > 0
	}
	return true
}

func raiseMemlock(node *facts.Node) []fix.Command {
	switch container := containerOf(node); container {
	case "docker", "podman":
		return []fix.Command{fix.Here("%s run --ulimit memlock=-1 …   # start the container of {node} anew with this option", fix.Name(container))}
	case "kubernetes":
		return []fix.Command{fix.Here(`securityContext: {capabilities: {add: ["IPC_LOCK"]}}   # in the pod's spec`)}
	}
	return append(raiseLimit("memlock", "unlimited", "LimitMEMLOCK=infinity"), fix.On("ulimit -l   # in a new session: unlimited"))
}
