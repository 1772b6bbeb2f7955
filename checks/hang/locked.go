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
)

// locked is that a rank which sleeps from time to time finds a lock of an op that nobody builds any more: it waits until that is
// gone, however long that takes. Of several it is the last that was made.
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
		Summary: fmt.Sprintf("waits for the lock of %s, as it seems: whoever built that op has ended, and its lock is still there", path.Base(path.Dir(last.Path))),
		Got:     last.Path + ", since " + facts.Duration(last.Age) + ", which no process has open",
	}
	for _, one := range left {
		f.Remedy = append(f.Remedy, fix.On("rm %s", fix.Path(one.Path)).Remark("as soon as it is gone, whoever waits for it builds the op"))
	}
	return f
}

// isHeld is whether the process that has made a lock is seen, on whichever node: homes are shared.
func (j *job) isHeld(lock facts.BuildLock) bool {
	return slices.ContainsFunc(j.nodes, func(n Node) bool {
		return n.Jobs != nil && slices.ContainsFunc(n.Jobs.Processes, func(p facts.JobProcess) bool {
			return slices.ContainsFunc(p.Locks, func(l facts.BuildLock) bool { return l.Holder != 0 && l.Path == lock.Path && l.Made == lock.Made })
		})
	})
}

// napsIn are in the names of the kernel's functions that Python's time.sleep waits in: since 3.11 and before.
//
// Source: CPython 3.10 and 3.11, Modules/timemodule.c, pysleep; Linux 6.18, kernel/time/hrtimer.c, fs/select.c.
var napsIn = []string{"nanosleep", "do_select", "poll_schedule_timeout"}
