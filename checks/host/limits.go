// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch/nccl"
)

// littleMemlock is what RDMA cannot start with: NCCL registers some tens of
// MiB of buffers for every peer and channel.
const littleMemlock = 1 << 30

var MemlockLimit = checks.Check{
	ID:       "memlock-limit",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionLimits, facts.SectionIB},
	Run: func(v checks.View) []checks.Finding {
		rdma := compare.Without(v.Nodes, func(n *facts.Node) bool { return !ranks.UsesNCCL(v) || !usesRDMA(n, v) })
		if len(rdma) == 0 {
			return memlockWithoutRDMA(v)
		}
		v.Nodes = rdma
		return checks.OnEach(func(_ checks.View, node *facts.Node) []checks.Finding {
			soft := node.Limits.MemLock.Soft
			exempt := node.Host != nil && node.Host.User == "root" && node.Host.Container == ""
			if told := node.Limits.LocksFreely; told != nil {
				exempt = *told
			}
			if soft < 0 || exempt {
				return nil
			}
			f := checks.Finding{
				Summary: "the limit on locked memory is too low for RDMA",
				Got:     bytesText(soft),
				Want:    "unlimited",
				Remedy:  remedy.RaiseMemlock(node),
			}
			if soft >= littleMemlock {
				f.Verdict, f.Summary = checks.Warn, "the limit on locked memory may be too low for RDMA"
			}
			return []checks.Finding{f}
		})(v)
	},
}

// memlockWithoutRDMA is the answer where nothing locks memory to speak of: the
// limit matters to nobody today, but a node that has a lower one than most was
// set up differently, and fails on the day the fleet gets adapters.
func memlockWithoutRDMA(v checks.View) []checks.Finding {
	var findings []checks.Finding
	for _, d := range compare.Differences(compare.Among(v.Nodes, "memlock", func(n *facts.Node) string { return bytesText(n.Limits.MemLock.Soft) })) {
		if !d.Split {
			f := d.Finding("limits on locked memory")
			odd := slices.IndexFunc(v.Nodes, func(n *facts.Node) bool { return n.Name == d.Nodes[0] })
			f.Verdict, f.Remedy = checks.Warn, remedy.RaiseMemlock(v.Nodes[odd])
			findings = append(findings, f)
		}
	}
	switch {
	case len(findings) > 0:
		return findings
	case !ranks.UsesNCCL(v):
		return checks.Skipped("accelerator cpu: gloo talks TCP and locks no memory")
	}
	return checks.Skipped("no node has an RDMA device that NCCL may use, and nothing else in a launch locks much memory")
}

// usesRDMA is whether ranks of the node will lock memory for adapters, or will as soon
// as what keeps them from opening those is out of the way.
func usesRDMA(node *facts.Node, v checks.View) bool {
	network := ranks.NCCLNetwork(v, node)
	switch network.Obstacle {
	case nccl.ObstacleDisabled, nccl.ObstacleNoAdapter, nccl.ObstacleInactive, nccl.ObstacleHCA:
		return network.Plugin != "" && len(node.IB.Devices) > 0
	}
	return true
}

// fewFiles is the kernel's default soft limit. A rank that cannot have even
// that many runs out of files while it connects to its peers.
const fewFiles = 1024

var OpenFilesLimit = checks.Check{
	ID:       "open-files-limit",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionLimits},
	Run: checks.OnEach(func(v checks.View, node *facts.Node) []checks.Finding {
		limit := node.Limits.NoFile
		below := func(limit, least int64) bool { return limit >= 0 && limit < least }
		if !below(limit.Hard, v.Policy.OpenFiles) && !below(limit.Soft, fewFiles) {
			return nil
		}
		f := checks.Finding{
			Summary: "the limit on open files is low",
			Got:     fmt.Sprintf("soft %s, hard %s", limitText(limit.Soft), limitText(limit.Hard)),
			Want:    fmt.Sprintf("soft at least %d, hard at least %d", fewFiles, v.Policy.OpenFiles),
			Remedy:  remedy.RaiseOpenFiles(node),
		}
		if below(limit.Hard, fewFiles) {
			f.Verdict, f.Summary = checks.Fail, "the limit on open files is too low to connect to the peers"
		}
		return []checks.Finding{f}
	}),
}

func bytesText(limit int64) string {
	if limit < 0 {
		return "unlimited"
	}
	return humanize.IBytes(uint64(limit))
}

func limitText(limit int64) string {
	if limit < 0 {
		return "unlimited"
	}
	return fmt.Sprint(limit)
}
