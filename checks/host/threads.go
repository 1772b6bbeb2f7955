// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

// ownThreads are what a rank starts whatever it computes: its main thread, autograd's for each
// device, torch's watchdog, heartbeat and pinning of memory, NCCL's proxy for each communicator,
// and those of the CUDA driver. On processors they are fewer.
const ownThreads = 24

// mostBLAS is the most threads that the OpenBLAS of numpy's wheels starts, all of them when numpy is
// imported (MacPython/openblas-libs, NUM_THREADS=64).
const mostBLAS = 64

var ProcessLimit = checks.Check{
	ID:       "process-limit",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionLimits, facts.SectionHost},
	Volatile: true,
	Run:      checks.OnEach(judgeThreads),
}

func judgeThreads(view checks.View, node *facts.Node) []checks.Finding {
	if node.Slots == 0 {
		return nil
	}
	limit, which, isCgroup := threadLimit(node)
	pool := poolOf(view, node)
	least := int64(node.Slots) * ownThreads
	need := least + int64(node.Slots)*int64(pool+min(pool, mostBLAS))
	if limit < 0 || limit >= need {
		return nil
	}
	f := checks.Finding{
		Verdict: checks.Warn,
		Summary: "the limit on processes and threads may be too low for the ranks",
		Got:     fmt.Sprintf("%d (%s)", limit, which),
		Want: fmt.Sprintf("at least %d: %d × (%d of torch, NCCL and CUDA + %d of OpenMP + %d of OpenBLAS), and DataLoader workers besides",
			need, node.Slots, ownThreads, pool, min(pool, mostBLAS)),
		Remedy: remedy.RaiseProcesses(node, isCgroup),
	}
	if limit < least {
		f.Verdict, f.Summary = checks.Fail, "the limit on processes and threads is too low for the ranks"
	} else if pool > 1 {
		f.Remedy = append(f.Remedy, ranks.ExportLine(view.Launch, "OMP_NUM_THREADS", "1").Remark("or a few: the pools are then as small"))
	}
	return []checks.Finding{f}
}

// threadLimit is the tighter of the two limits that bind the ranks of a node, -1 for neither.
//
// Source: copy_process in kernel/fork.c, Linux 6.6, which lets root pass the user's limit.
func threadLimit(node *facts.Node) (limit int64, which string, isCgroup bool) {
	limit, which = node.Limits.NProc.Soft, "ulimit -u"
	if node.Host.User == "root" {
		limit = -1
	}
	if pids := node.Limits.PIDsMax; pids != nil && *pids >= 0 && (limit < 0 || *pids < limit) {
		return *pids, "pids.max of the cgroup", true
	}
	return limit, which, false
}

// poolOf is how many threads a rank's pool of OpenMP has.
//
// Source: torch/distributed/run.py, config_from_args, 2.0 to 2.9; deepspeed/launcher/launch.py, main,
// 0.19.8, which sets it with --bind_cores_to_rank alone.
func poolOf(view checks.View, node *facts.Node) int {
	if n, err := strconv.Atoi(ranks.Env(view, node).Get("OMP_NUM_THREADS").Value); err == nil && n > 0 {
		return n
	}
	if view.Launch.Torchrun() && node.Slots > 1 {
		return 1
	}
	return max(1, node.Host.CPU.Usable)
}

var CPUShare = checks.Check{
	ID:       "cpu-share",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionHost},
	Run:      checks.OnEach(judgeShare),
}

func judgeShare(view checks.View, node *facts.Node) []checks.Finding {
	cpu := node.Host.CPU
	each, why := 1.0, "one for each rank"
	if ranks.UsesNCCL(view) {
		each, why = 2, "two for each rank: one for Python, one for NCCL's proxy"
	}
	share, by := float64(cpu.Usable), fmt.Sprintf("%d of %d, by the affinity of the session", cpu.Usable, cpu.Online)
	if cpu.Quota != nil && *cpu.Quota < share {
		share, by = *cpu.Quota, fmt.Sprintf("%s of %d, by the cgroup's quota", humanize.Ftoa(*cpu.Quota), cpu.Online)
	}
	need := each * float64(node.Slots)
	if share >= need || share >= float64(cpu.Online) {
		return nil
	}
	return []checks.Finding{{
		Summary: "the ranks get few of the machine's processors",
		Got:     by,
		Want:    fmt.Sprintf("at least %s: %s", humanize.Ftoa(need), why),
		Remedy:  moreProcessors(node),
	}}
}

// moreProcessors lifts what keeps a session from the processors of its machine, where that was set.
func moreProcessors(node *facts.Node) []fix.Command {
	switch container := ranks.ContainerOf(node); {
	case container == "kubernetes":
		return []fix.Command{fix.Here("resources: {limits: {cpu: %s}}   # in the pod's spec, or no limit at all", fix.Number(int64(node.Host.CPU.Online)))}
	case container != "":
		return []fix.Command{fix.Note("start the container of {nodes} anew without --cpus and --cpuset-cpus, or with more of them")}
	case node.SSH != nil && node.SSH.Carrier == "srun":
		return []fix.Command{fix.Note("ask Slurm for the job with --exclusive, or with a larger --cpus-per-task")}
	}
	return []fix.Command{fix.On("taskset -cp $$; cat /proc/self/cgroup; systemctl show -p CPUQuotaPerSecUSec -p AllowedCPUs user-$(id -u).slice   # what sets it")}
}
