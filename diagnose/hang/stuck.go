// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
)

// stuck returns a finding if something has ended or stopped the rank for good, otherwise nil.
func (m member) stuck() *checks.Finding {
	switch {
	case m.State == "Z":
		f := &checks.Finding{Summary: "ended" + m.ending() + ", but its launcher has not noticed",
			Remedy: []fix.Command{fix.Note("Read its last output, and start the job again.")}}
		if m.Exit != nil && *m.Exit == 128+9 {
			f.Summary += starved([]member{m})
			f.Remedy = append(f.Remedy, fix.On(`sudo dmesg -T | grep -i "killed process" | tail -n 5`).Remark("shows whether the kernel killed it because memory ran out"))
		}
		return f
	case m.Tracer != 0 && strings.EqualFold(m.State, "T"):
		return &checks.Finding{Summary: "stopped by a debugger that traces it", Got: fmt.Sprintf("traced by pid %d", m.Tracer),
			Remedy: []fix.Command{fix.On("ps -o pid,etime,args -p %s", fix.Number(m.Tracer)).Remark("shows the debugger; the rank continues when it ends")}}
	case m.State == "T":
		return &checks.Finding{Summary: "stopped by a signal, as from Ctrl-Z or scontrol suspend", Remedy: []fix.Command{fix.On("kill -CONT %s", fix.Number(m.PID))}}
	case slices.Contains(frozenIn, m.WaitsIn):
		return &checks.Finding{Summary: "frozen with its cgroup: its container is paused, or its step suspended",
			Remedy: []fix.Command{fix.On("cat /proc/%s/cgroup", fix.Number(m.PID)), fix.On("docker ps --filter status=paused").Remark("docker unpause continues a paused container")}}
	case slices.Contains(writesIn, m.WaitsIn):
		return &checks.Finding{Summary: "blocked while writing its output: the terminal, program or disk that takes it is stopped, hung or full",
			Remedy: []fix.Command{fix.On("ls -l /proc/%s/fd/1 /proc/%s/fd/2", fix.Number(m.PID), fix.Number(m.PID)), fix.Note("Continue the terminal or the program that reads the pipe (Ctrl-Q, fg), or let each rank log to a file.")}}
	case m.State == "D" && !m.usesFiles() && slices.ContainsFunc(remoteDisks, func(part string) bool { return strings.Contains(m.WaitsIn, part) }):
		return &checks.Finding{Summary: fmt.Sprintf("waiting in %s for a file server that does not answer; signals do not interrupt it", m.WaitsIn),
			Remedy: []fix.Command{fix.On("mount -t nfs,nfs4,lustre,ceph,fuse"), fix.On("sudo cat /proc/%s/stack", fix.Number(m.PID))}}
	}
	return nil
}

// ending returns how a process ended, in words.
func (m member) ending() string {
	switch {
	case m.Exit == nil || *m.Exit == 0:
		return ""
	case *m.Exit == 127:
		return " with 127, as when a program is not found"
	case *m.Exit > 128:
		return fmt.Sprintf(" by signal %d", *m.Exit-128)
	}
	return fmt.Sprintf(" with %d", *m.Exit)
}

// frozenIn lists the kernel functions in which frozen processes sleep (cgroup versions 1 and 2).
// writesIn lists the kernel functions in which a process sleeps while nothing reads its output.
// They are for pipes (before and since Linux 6.14) and for terminals.
//
// Source: Linux 6.18, kernel/freezer.c, kernel/signal.c, fs/pipe.c, drivers/tty/n_tty.c.
var (
	frozenIn = []string{"__refrigerator", "do_freezer_trap"}
	writesIn = []string{"pipe_write", "anon_pipe_write", "n_tty_write"}
)

// remoteDisks lists parts of the names of kernel functions that wait for a file server.
var remoteDisks = []string{"nfs", "rpc_", "fuse", "ldlm", "cl_sync", "ceph", "cifs", "smb"}

// halted finds stopped launchers and runners. A stopped launcher passes on no output and does not
// notice when a rank ends.
func (j *job) halted() (findings []checks.Finding) {
	script := ""
	watching := map[*facts.JobProcess]bool{}
	for _, m := range j.members {
		script, watching[m.launcher] = cmp.Or(script, m.Script), true
	}
	for _, node := range j.looked {
		for i := range node.Jobs.Processes {
			p := &node.Jobs.Processes[i]
			ours := watching[p] || p.Kind == facts.JobRunner && p.Script == script
			if ours && strings.EqualFold(p.State, "T") {
				findings = append(findings, checks.Finding{Nodes: []string{node.Name},
					Summary: fmt.Sprintf("%s is stopped, as by Ctrl-Z: it passes on no output and does not notice when a rank ends", p.Program),
					Remedy:  []fix.Command{fix.On("kill -CONT %s", fix.Number(p.PID))}})
			}
		}
	}
	return findings
}

// locked finds a rank that sleeps while an op has a build lock although no process builds the op
// any more. The rank waits without a time limit until the lock is removed. If there are several
// locks, locked reports the newest.
//
// Source: torch 2.4 and 2.15, torch/utils/file_baton.py, FileBaton.wait.
func (j *job) locked(m member) *checks.Finding {
	if m.Compiles != "" || !slices.ContainsFunc(napsIn, func(part string) bool { return strings.Contains(m.WaitsIn, part) }) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(m.Locks), j.isHeld)
	if len(left) == 0 {
		return nil
	}
	slices.SortFunc(left, func(a, b facts.BuildLock) int {
		return cmp.Or(cmp.Compare(b.Made, a.Made), strings.Compare(a.Path, b.Path))
	})
	last := left[0]
	f := &checks.Finding{
		Summary: fmt.Sprintf("seems to wait for the build lock of %s: the process that built this op has ended and left its lock", path.Base(path.Dir(last.Path))),
		Got:     last.Path + ", created " + text.Duration(j.age(last)) + " ago, open in no process",
	}
	for _, one := range left {
		f.Remedy = append(f.Remedy, fix.On("rm %s", fix.Path(one.Path)).Remark("the waiting rank then builds the op"))
	}
	return f
}

// isHeld reports whether the process that created a lock is still visible.
func (j *job) isHeld(lock facts.BuildLock) bool {
	return slices.ContainsFunc(j.tellings(lock), func(l facts.BuildLock) bool { return l.Holder != 0 })
}

// age returns how long a lock has existed. It is the longest age that any rank reports, because the
// ranks were read at different times.
func (j *job) age(lock facts.BuildLock) (longest float64) {
	for _, told := range j.tellings(lock) {
		longest = max(longest, told.Age)
	}
	return longest
}

// tellings returns what the processes of all nodes report about a lock. Home directories may be
// shared.
func (j *job) tellings(lock facts.BuildLock) (all []facts.BuildLock) {
	for _, node := range j.looked {
		for _, p := range node.Jobs.Processes {
			for _, told := range p.Locks {
				if told.Path == lock.Path && told.Made == lock.Made {
					all = append(all, told)
				}
			}
		}
	}
	return all
}

// napsIn lists parts of the names of kernel functions in which Python's time.sleep waits. The first
// is for Python 3.11 and newer, the others for older releases.
//
// Source: CPython 3.10 and 3.11, Modules/timemodule.c, pysleep; Linux 6.18, kernel/time/hrtimer.c,
// fs/select.c.
var napsIn = []string{"nanosleep", "do_select", "poll_schedule_timeout"}
