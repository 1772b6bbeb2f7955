// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch/nccl"
)

// littleMemlock is the limit in bytes below which RDMA cannot start. NCCL registers some tens of
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
			if mayLock := node.Limits.LocksFreely; mayLock != nil {
				exempt = *mayLock
			}
			if soft < 0 || exempt {
				return nil
			}
			f := checks.Finding{
				Summary: "the limit on locked memory is " + bytesText(soft) + ", too low for RDMA",
				Got:     bytesText(soft),
				Want:    "unlimited",
				Remedy:  remedy.RaiseMemlock(node),
			}
			if soft >= littleMemlock {
				f.Verdict, f.Summary = checks.Warn, "the limit on locked memory is "+bytesText(soft)+", perhaps too low for RDMA"
			}
			return []checks.Finding{f}
		})(v)
	},
}

// memlockWithoutRDMA returns the findings for a launch in which no program locks much memory. The
// limit does not matter for such a launch. But a node with a lower limit than most nodes was set up
// differently, and will fail as soon as the fleet gets RDMA adapters.
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
		return checks.Skipped("accelerator cpu: gloo uses TCP and locks no memory")
	}
	return checks.Skipped("no node has an RDMA device that NCCL may use, and without RDMA a launch locks little memory")
}

// usesRDMA reports whether ranks of the node lock memory for adapters. It also returns true if they
// will do so once the obstacle that prevents them from opening the adapters is removed.
func usesRDMA(node *facts.Node, v checks.View) bool {
	network := ranks.NCCLNetwork(v, node)
	switch network.Obstacle {
	case nccl.ObstacleDisabled, nccl.ObstacleNoAdapter, nccl.ObstacleInactive, nccl.ObstacleHCA:
		return network.Plugin != "" && len(node.IB.Devices) > 0
	}
	return true
}

const (
	// fewFiles is the kernel's default soft limit on open files. A lower limit is only enough for a
	// small training that opens few files.
	fewFiles = 1024
	// ownFiles is the number of files that a rank holds open besides its connection to each other
	// rank, without data and without devices. Measured with torch 2.15 and gloo, world sizes 2 and 4.
	ownFiles = 10
)

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
			Summary: fmt.Sprintf("the limit on open files is low: soft %s, hard %s", limitText(limit.Soft), limitText(limit.Hard)),
			Got:     fmt.Sprintf("soft %s, hard %s", limitText(limit.Soft), limitText(limit.Hard)),
			Want:    fmt.Sprintf("soft at least %d, hard at least %d", fewFiles, v.Policy.OpenFiles),
			Remedy:  remedy.RaiseOpenFiles(node),
		}
		size := limit.Soft
		if ranks.UsesNCCL(v) { // NCCL raises the soft limit of its process
			size = limit.Hard
		}
		if world := v.Launch.WorldSize(); below(size, int64(ownFiles+world)) {
			f.Verdict, f.Summary = checks.Fail, fmt.Sprintf("%d open files are too few: each rank connects to %d other ranks", size, max(world-1, 0))
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

// NoRanks is the reason why accept-backlog examined nothing.
const NoRanks = "the number of ranks is not known"

var AcceptBacklog = checks.Check{
	ID:       "accept-backlog",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Run:      judgeBacklog,
}

// Source: torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp, DEFAULT_BACKLOG, and socket.cpp;
// NVIDIA/nccl 2.30, src/misc/socket.cc, ncclSocketListen.
func judgeBacklog(view checks.View) []checks.Finding {
	world := view.Launch.WorldSize()
	if world == 0 {
		return checks.Skipped(NoRanks)
	}
	first, findings := names.NodeZero(view)
	switch {
	case first == nil:
		return findings
	case first.Net.SoMaxConn == 0:
		return []checks.Finding{checks.UnknownFor(first, "net: the kernel does not report net.core.somaxconn")}
	case first.Net.SoMaxConn >= world:
		return nil
	}
	return []checks.Finding{{
		Nodes:   []string{first.Name},
		Summary: fmt.Sprintf("node 0 queues at most %d connections, but there are %d ranks", first.Net.SoMaxConn, world),
		Got:     fmt.Sprintf("net.core.somaxconn is %d", first.Net.SoMaxConn),
		Want:    fmt.Sprintf("at least %d, the number of ranks", world),
		Remedy:  remedy.LengthenBacklog(first, world),
	}}
}
