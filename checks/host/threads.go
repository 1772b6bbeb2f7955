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
	"preflight/internal/text"
)

// ownThreads is the number of threads that every rank starts. They are its main thread, autograd's
// thread for each device, torch's watchdog, heartbeat and memory-pinning threads, NCCL's proxy for
// each communicator, and the threads of the CUDA driver. On CPUs there are fewer.
const ownThreads = 24

// mostBLAS is the largest number of threads that the OpenBLAS in numpy's wheels starts. OpenBLAS
// starts all of them when numpy is imported (MacPython/openblas-libs, NUM_THREADS=64).
const mostBLAS = 64

var ProcessLimit = checks.Check{
	ID:       "process-limit",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionLimits, facts.SectionHost},
	Volatile: true,
	Run: checks.OnEach(func(view checks.View, node *facts.Node) []checks.Finding {
		return append(judgeThreads(view, node), judgeEach(view, node)...)
	}),
}

const (
	// littleCPUTime is a limit in seconds that a rank uses up before it has trained for long. A rank
	// uses several CPUs.
	littleCPUTime = 10 * 60
	// torchSpace is the address space in bytes of a rank that trains on CPUs with gloo. Two ranks of
	// torch 2.15 on a machine with two CPUs were tried: they train with 3516 MiB, and autograd dies
	// with 3467. More CPUs need more, for the stacks of their threads.
	torchSpace = 3480 << 20
	// cudaSpace is the least that may be enough for CUDA, which reserves addresses for the memory of
	// the machine and of all GPUs (CUDA C++ Programming Guide, Unified Virtual Address Space).
	cudaSpace = 64 << 30
)

// judgeEach returns the findings for the limits that each process of a session has. A launch that
// needs no ssh may start in a session with other limits.
func judgeEach(view checks.View, node *facts.Node) (findings []checks.Finding) {
	worst := checks.Fail
	if view.Launch.WithoutSSH(node.Name) != "" {
		worst = checks.Warn
	}
	if seconds := node.Limits.CPUTime; seconds != nil {
		f := checks.Finding{
			Verdict:  checks.Warn,
			Summary:  "every process is killed after " + text.Duration(float64(*seconds)) + " of CPU time",
			Got:      fmt.Sprintf("%d s (ulimit -t)", *seconds),
			Want:     "unlimited",
			Remedy:   remedy.RaiseCPUTime(node),
			WouldSee: "{node}: ssh exited with exit code 255, or a rank exits with return code = -24",
		}
		if *seconds < littleCPUTime {
			f.Verdict = worst
		}
		findings = append(findings, f)
	}
	if space := node.Limits.AddressSpace; space != nil && !(node.SSH != nil && node.SSH.Cause == "no-address-space") { // otherwise agent-start reports it
		least := int64(torchSpace)
		if view.Launch.Accelerator != "cpu" {
			least = cudaSpace
		}
		f := checks.Finding{
			Verdict:  checks.Warn,
			Summary:  "every process is limited to " + bytesText(*space) + " of address space",
			Got:      bytesText(*space) + " (ulimit -v)",
			Want:     "unlimited",
			Remedy:   remedy.RaiseAddressSpace(node),
			WouldSee: "nothing, unless a rank needs more; then MemoryError",
		}
		if torch := ranks.TorchLacksSpace(node); torch != "" {
			f.Verdict, f.WouldSee = checks.Fail, "ImportError: "+torch
		} else if *space < least {
			f.Verdict, f.WouldSee = worst, "ImportError: libtorch_cpu.so: failed to map segment from shared object, or MemoryError"
		}
		findings = append(findings, f)
	}
	return findings
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
		Summary: fmt.Sprintf("the limit of %d processes may be too low for the ranks' threads", limit),
		Got:     fmt.Sprintf("%d (%s)", limit, which),
		Want: fmt.Sprintf("at least %d: %d × (%d of torch, NCCL and CUDA + %d of OpenMP + %d of OpenBLAS), plus DataLoader workers",
			need, node.Slots, ownThreads, pool, min(pool, mostBLAS)),
		Remedy: remedy.RaiseProcesses(node, isCgroup),
	}
	if limit < least {
		f.Verdict, f.Summary = checks.Fail, fmt.Sprintf("the limit of %d processes is too low for the ranks' threads", limit)
	} else if pool > 1 {
		f.Remedy = append(f.Remedy, ranks.ExportLine(view.Launch, "OMP_NUM_THREADS", "1").Remark("or another small number: both thread pools then have this size").As(fix.Or))
	}
	return []checks.Finding{f}
}

// threadLimit returns the tighter of the two limits on threads that apply to the ranks of a node.
// It returns -1 if neither applies.
//
// Source: copy_process in kernel/fork.c, Linux 6.6, which exempts root from the user's limit.
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

// poolOf returns the number of threads in a rank's OpenMP pool.
//
// Source: torch/distributed/run.py, config_from_args, 2.0 to 2.9; deepspeed/launcher/launch.py,
// main, 0.19.8, which sets the variable only with --bind_cores_to_rank.
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
	each, why := 1.0, "one per rank"
	if ranks.UsesNCCL(view) {
		each, why = 2, "two per rank, one for Python and one for NCCL's proxy"
	}
	share, by := float64(cpu.Usable), fmt.Sprintf("%d of %d CPUs, limited by the affinity of the session", cpu.Usable, cpu.Online)
	if cpu.Quota != nil && *cpu.Quota < share {
		share, by = *cpu.Quota, fmt.Sprintf("%s of %d CPUs, limited by the cgroup's quota", humanize.Ftoa(*cpu.Quota), cpu.Online)
	}
	need := each * float64(node.Slots)
	if share >= need || share >= float64(cpu.Online) {
		return nil
	}
	return []checks.Finding{{
		Summary: fmt.Sprintf("%d ranks may use only %s of %d CPUs", node.Slots, humanize.Ftoa(share), cpu.Online),
		Got:     by,
		Want:    fmt.Sprintf("at least %s CPUs: %s", humanize.Ftoa(need), why),
		Remedy:  moreProcessors(node),
	}}
}

// moreProcessors returns the commands or notes that lift the limit that prevents a session from
// using all CPUs.
func moreProcessors(node *facts.Node) []fix.Command {
	switch container := ranks.ContainerOf(node); {
	case container == "kubernetes":
		return []fix.Command{fix.Note("set resources: {limits: {cpu: %s}} in the pod's spec, or remove the limit", fix.Number(int64(node.Host.CPU.Online)))}
	case container != "":
		return []fix.Command{fix.Note("start the container of {nodes} again without --cpus and --cpuset-cpus, or with higher values")}
	case node.SSH != nil && node.SSH.Carrier == "srun":
		return []fix.Command{fix.Note("ask Slurm for the job with --exclusive, or with a larger --cpus-per-task")}
	}
	return []fix.Command{fix.On("taskset -cp $$; cat /proc/self/cgroup; systemctl show -p CPUQuotaPerSecUSec -p AllowedCPUs user-$(id -u).slice   # shows what sets the limit").As(fix.Look), fix.Note("raise the CPU affinity or the CPU quota of the session on {nodes}")}
}
