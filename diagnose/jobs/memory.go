// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"preflight/probe/machine"
)

// oomKills is how many processes of a process's cgroup the kernel has killed for want of memory since that was made:
// a job of Slurm and a container have one of their own, and what is above them has seen others.
// Of those above, the ones count that set a limit, as a job does for its steps.
//
// Source: Linux 6.12, Documentation/admin-guide/cgroup-v2.rst, memory.events, which counts what is below too;
// mm/memcontrol-v1.c, memory.oom_control, which has oom_kill since 4.13.
func oomKills(o machine.Options, pid int) (most int) {
	c, found := machine.CgroupOf(o, strconv.Itoa(pid), "memory")
	if !found {
		return 0
	}
	events := "memory.oom_control"
	if c.V2 {
		events = "memory.events"
	}
	for dir := range c.Upward() {
		if _, limited := c.MemoryLimit(dir); dir != c.Dir && !limited {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, events)) // the uppermost has none
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) == 2 && words[0] == "oom_kill" {
				n, _ := strconv.Atoi(words[1])
				most = max(most, n)
			}
		}
	}
	return most
}
