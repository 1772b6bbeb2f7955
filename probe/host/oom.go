// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"strconv"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// killsMost is the maximum number of killed processes to keep. The newest are kept.
	killsMost = 20
	// killsWithin is the maximum number of seconds between the message that names the cgroup and
	// the messages about the processes that the kernel kills for it.
	killsWithin = 1
)

// CollectKernelLog reads from the kernel's log which processes the kernel has killed for lack of
// memory since the machine was booted.
func CollectKernelLog(ctx context.Context, o machine.Options) (*facts.KernelLog, error) {
	log := &facts.KernelLog{OOMKills: []facts.OOMKill{}}
	isEmpty, isAnnounced := true, false
	cgroup, named := "", 0.0
	log.Unread = machine.KernelLog(ctx, o, machine.Booted, "Linux version |Kill(ed)? process |oom-kill:constraint=|killed as a result of limit", func(age float64, message string) {
		if isEmpty {
			isEmpty, log.Reaches = false, age
		}
		if limit := limitReached.FindStringSubmatch(message); limit != nil {
			cgroup, named = limit[1]+limit[2], age
			return
		}
		match := killed.FindStringSubmatch(message)
		if match == nil {
			return
		}
		kill := facts.OOMKill{Process: match[4], Age: age, Limited: match[1] == "Memory cgroup"}
		kill.PID, _ = strconv.Atoi(match[3])         // no error: the text has at most ten digits
		kib, _ := strconv.ParseInt(match[5], 10, 64) // 0 if the message does not have it
		kill.RSS = kib << 10
		if named-age <= killsWithin {
			kill.Cgroup = cgroup
		}
		last := len(log.OOMKills) - 1
		if match[1] == "" && isAnnounced { // the kernel may kill a child of the announced process instead
			kill.Limited = log.OOMKills[last].Limited
			log.OOMKills = log.OOMKills[:last]
		}
		isAnnounced = match[2] == ""
		log.OOMKills = append(log.OOMKills[max(0, len(log.OOMKills)-killsMost+1):], kill)
	})
	if isEmpty && log.Unread == "" {
		log.Unread = "it is empty"
	}
	if log.Unread != "" {
		log.OOMKills = nil
	}
	return log, ctx.Err()
}

var (
	// killed matches the message about a killed process. Kernels before 5.1 write two messages: one
	// that announces the kill ("Kill process") and says why, and one without the reason.
	//
	//	Out of memory: Killed process 4711 (python3) total-vm:281236728kB, anon-rss:251003212kB, …
	//	Memory cgroup out of memory: Kill process 4711 (python3) score 1000 or sacrifice child
	//	Killed process 4711 (python3), UID 1000, total-vm:281236728kB, anon-rss:251003212kB, …
	//
	// Source: Linux 2.6.32 to 6.18, mm/oom_kill.c, oom_kill_process and __oom_kill_process.
	killed = lazyregexp.New(`^(?:(Memory cgroup|Out of memory)[^:]*: )?Kill(ed)? process (\d{1,10})(?:, UID \d+,)? \((.{1,64}?)\)(?:,| |$)(?:.*anon-rss:(\d{1,15})kB)?`)
	// limitReached matches the message that names the cgroup whose limit was reached. It has no
	// cgroup if the whole machine had no memory left.
	//
	//	oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/uid_1000/job_42,task_memcg=…
	//	Task in /slurm/uid_1000/job_42/step_0 killed as a result of limit of /slurm/uid_1000/job_42
	//
	// Source: Linux 5.0 to 6.18, mm/memcontrol.c, mem_cgroup_print_oom_context; before,
	// mem_cgroup_print_oom_info.
	limitReached = lazyregexp.New(`^(?:oom-kill:constraint=[^,]*,.*?(?:,oom_memcg=([^,]+),|,global_oom,)|Tasks? in \S+ killed as a result of limit of (\S+))`)
)
