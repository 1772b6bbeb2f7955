// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Processes returns the IDs of all processes that this user may see, in ascending order, without
// the kernel's own threads. There are thousands of these threads on a large machine, and to read
// one file of each process takes longer than anything else that the probe reads. They are the
// children of process 2, unless a container hides them. A kernel without CONFIG_PROC_CHILDREN does
// not list children. In that case the result has the kernel's threads.
func Processes(o Options) (pids []int) {
	threads := map[string]bool{}
	if Line(o.At("/proc/2/comm")) == "kthreadd" {
		for _, child := range strings.Fields(Line(o.At("/proc/2/task/2/children"))) {
			threads[child] = true
		}
	}
	dir, err := os.Open(o.At("/proc"))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && !threads[name] {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// ProcessName returns the name that the kernel has for a process, at most 15 bytes. It returns "" if
// the process has ended or is hidden.
func ProcessName(o Options, pid int) string {
	return Line(filepath.Join(o.At("/proc"), strconv.Itoa(pid), "comm"))
}
