// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// TestOOMKills reads lines of kernels of several ages.
func TestOOMKills(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		want    []facts.OOMKill
	}{
		"none": {[]string{"5,0,0,-;Linux version 6.1.0-21-amd64"}, []facts.OOMKill{}},
		"Linux 6.8, a Slurm job": {[]string{
			"4,801,1000000,-;python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
			"6,802,1000100,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,oom_memcg=/system.slice/slurmstepd.scope/job_42,task_memcg=/system.slice/slurmstepd.scope/job_42/step_0/user/task_0,task=python3,pid=4711,uid=1000",
			"3,803,1000200,-;Memory cgroup out of memory: Killed process 4711 (python3) total-vm:91236728kB, anon-rss:64003212kB, file-rss:0kB, shmem-rss:1024kB, UID:1000 pgtables:510012kB oom_score_adj:0",
			"6,804,1000300,-;oom_reaper: reaped process 4711 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:1024kB",
		}, []facts.OOMKill{{Process: "python3", PID: 4711, Age: 99.9998, Limited: true, Cgroup: "/system.slice/slurmstepd.scope/job_42", RSS: 64003212 << 10}}},
		"Linux 6.8, the machine, after a job": {[]string{
			"6,1,1000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job,task=a b),pid=7,uid=0",
			"3,2,1000000,-;Memory cgroup out of memory: Killed process 7 (a b) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0",
			"6,3,2000000,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice,task=pt_main_thread,pid=8,uid=1001",
			"3,4,2000000,-;Out of memory: Killed process 8 (pt_main_thread) total-vm:4kB, anon-rss:2kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:1kB oom_score_adj:0",
		}, []facts.OOMKill{{Process: "a b", PID: 7, Age: 100, Limited: true, Cgroup: "/job", RSS: 1 << 10}, {Process: "pt_main_thread", PID: 8, Age: 99, RSS: 2 << 10}}},
		"Linux 4.18, a container": {[]string{
			"6,1,1000000,-;Task in /docker/6f2c killed as a result of limit of /docker/6f2c",
			"3,2,1000000,-;Memory cgroup out of memory: Kill process 4711 (torchrun) score 1000 or sacrifice child",
			"3,3,1000000,-;Killed process 4720 (python3) total-vm:9kB, anon-rss:6kB, file-rss:0kB, shmem-rss:0kB",
		}, []facts.OOMKill{{Process: "python3", PID: 4720, Age: 100, Limited: true, Cgroup: "/docker/6f2c", RSS: 6 << 10}}},
		"Linux 3.10 of Red Hat": {[]string{
			"3,2,1000000,-;Out of memory: Kill process 4711 (python) score 931 or sacrifice child",
			"3,3,1000000,-;Killed process 4711 (python), UID 1000, total-vm:9kB, anon-rss:6kB, file-rss:0kB, shmem-rss:0kB",
		}, []facts.OOMKill{{Process: "python", PID: 4711, Age: 100, RSS: 6 << 10}}},
		"no message that names the cgroup": {[]string{
			"6,1,1000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job,task=a,pid=7,uid=0",
			"3,2,9000000,-;Memory cgroup out of memory: Killed process 9 (b)",
			"3,2,9000000,-;Out of memory (oom_kill_allocating_task): Killed process 10 (c) total-vm:9kB",
		}, []facts.OOMKill{{Process: "b", PID: 9, Age: 92, Limited: true}, {Process: "c", PID: 10, Age: 92}}},
		"quotations": {[]string{
			"3,2,1000000,-;systemd[1]: Out of memory: Killed process 9 (b) total-vm:9kB",
			"6,2,1000000,-;Out of memory: OOM victim 9 (b) is already exiting. Skip killing the task",
			" SUBSYSTEM=Out of memory: Killed process 9 (b)",
		}, []facts.OOMKill{}},
	} {
		t.Run(name, func(t *testing.T) {
			o := probetest.Write(t, machine.Options{}, map[string]string{"/dev/kmsg": strings.Join(c.records, "\n") + "\n", "/proc/uptime": "101.00 7.00\n"})
			got, err := CollectKernelLog(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.OOMKills); diff != "" || got.Unread != "" || got.Reaches < 99 {
				t.Errorf("it reaches back %v s, unread %q (-want +got):\n%s", got.Reaches, got.Unread, diff)
			}
		})
	}
}

// TestOOMKillsUnread checks that a log without records does not count as proof.
func TestOOMKillsUnread(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/dev/kmsg": "", "/proc/uptime": "101.00 7.00\n"})
	if got, _ := CollectKernelLog(t.Context(), o); got.OOMKills != nil || got.Unread != "it is empty" {
		t.Errorf("an empty log: %+v", got)
	}
	if err := os.Remove(o.At("/dev/kmsg")); err != nil {
		t.Fatal(err)
	}
	if got, _ := CollectKernelLog(t.Context(), o); got.OOMKills != nil || got.Unread != "no such file or directory" {
		t.Errorf("no log: %+v", got)
	}
}

// TestOOMKillsOfTheJournal covers a user who may read the journal only. A journal that does not
// reach back to the boot proves nothing.
func TestOOMKillsOfTheJournal(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/proc/uptime": "101.00 7.00\n", "/run/systemd/journal/socket": ""})
	t.Setenv("PATH", o.At("/run/systemd/journal"))
	const booted, kill = `[    0.000000] kernel: Linux version 6.1.0-21-amd64\n`, `[   41.000000] kernel: Out of memory: Killed process 9 (python3) total-vm:9kB, anon-rss:6kB\n`
	prints := func(lines string) {
		probetest.Program(t, o.At("/run/systemd/journal/journalctl"), "#!/bin/sh\nprintf '"+lines+"'\n")
	}
	prints(booted + kill)
	got, _ := CollectKernelLog(t.Context(), o)
	if diff := cmp.Diff(&facts.KernelLog{OOMKills: []facts.OOMKill{{Process: "python3", PID: 9, Age: 60, RSS: 6 << 10}}, Reaches: 101}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	prints(kill)
	if got, _ := CollectKernelLog(t.Context(), o); got.Unread == "" {
		t.Errorf("%+v of a journal that does not go back to the start", got)
	}
}

// TestOOMKillsOfAFlood checks that the newest kills are kept.
func TestOOMKillsOfAFlood(t *testing.T) {
	var records strings.Builder
	for i := range 50 {
		fmt.Fprintf(&records, "3,%d,%d000000,-;Memory cgroup out of memory: Kill process %d (a) score 9 or sacrifice child\n3,%[1]d,%[2]d000000,-;Killed process %[3]d (a) total-vm:9kB\n", i, i, 100+i)
	}
	o := probetest.Write(t, machine.Options{}, map[string]string{"/dev/kmsg": records.String(), "/proc/uptime": "101.00 7.00\n"})
	got, _ := CollectKernelLog(t.Context(), o)
	if n := len(got.OOMKills); n != killsMost || got.OOMKills[0].PID != 130 || got.OOMKills[n-1].PID != 149 {
		t.Errorf("%d: %+v", n, got.OOMKills)
	}
}
