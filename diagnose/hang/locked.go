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
		Got:     last.Path + ", since " + text.Duration(j.age(last)) + ", which no process has open",
	}
	for _, one := range left {
		f.Remedy = append(f.Remedy, fix.On("rm %s", fix.Path(one.Path)).Remark("as soon as it is gone, whoever waits for it builds the op"))
	}
	return f
}

// isHeld is whether the process that has made a lock is seen.
func (j *job) isHeld(lock facts.BuildLock) bool {
	return slices.ContainsFunc(j.tellings(lock), func(l facts.BuildLock) bool { return l.Holder != 0 })
}

// age is for how long a lock has been there: the longest of what its ranks tell, who were asked one after the other.
func (j *job) age(lock facts.BuildLock) (longest float64) {
	for _, told := range j.tellings(lock) {
		longest = max(longest, told.Age)
	}
	return longest
}

// tellings are what all processes tell of a lock, on whichever node: homes are shared.
func (j *job) tellings(lock facts.BuildLock) (all []facts.BuildLock) {
	for _, n := range j.nodes {
		if n.Jobs == nil {
			continue
		}
		for _, p := range n.Jobs.Processes {
			for _, told := range p.Locks {
				if told.Path == lock.Path && told.Made == lock.Made {
					all = append(all, told)
				}
			}
		}
	}
	return all
}

// napsIn are in the names of the kernel's functions that Python's time.sleep waits in: since 3.11 and before.
//
// Source: CPython 3.10 and 3.11, Modules/timemodule.c, pysleep; Linux 6.18, kernel/time/hrtimer.c, fs/select.c.
var napsIn = []string{"nanosleep", "do_select", "poll_schedule_timeout"}
