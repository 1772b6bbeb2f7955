// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"preflight/probe/machine"
)

// cgroup is what a controller rules this process by.
type cgroup struct{ machine.Cgroup }

func ownCgroup(o machine.Options, controller string) (cgroup, bool) {
	c, found := machine.CgroupOf(o, "self", controller)
	return cgroup{c}, found
}

// tightest is the smallest limit that the cgroup or an ancestor sets, and the
// directory that sets it; false when none does.
func tightest[N cmp.Ordered](c cgroup, limit func(dir string) (N, bool)) (smallest N, by string, found bool) {
	for dir := range c.Upward() {
		if n, set := limit(dir); set && (!found || n < smallest) {
			smallest, by, found = n, dir, true
		}
	}
	return smallest, by, found
}

// cpuQuota is how many processors' worth of time a cgroup directory allows.
func (c cgroup) cpuQuota(dir string) (float64, bool) {
	if c.V2 {
		return parseCPUMax(machine.Line(filepath.Join(dir, "cpu.max")))
	}
	quota := machine.Line(filepath.Join(dir, "cpu.cfs_quota_us"))
	return parseCPUMax(quota + " " + machine.Line(filepath.Join(dir, "cpu.cfs_period_us")))
}

// parseCPUMax reads "200000 100000", microseconds of time each period; "max"
// and, from version 1, -1 mean no limit.
func parseCPUMax(text string) (processors float64, limited bool) {
	quota, period, _ := strings.Cut(text, " ")
	q, err := strconv.ParseFloat(quota, 64)
	if err != nil || q <= 0 {
		return 0, false
	}
	p, err := strconv.ParseFloat(period, 64)
	if err != nil || p <= 0 {
		return 0, false
	}
	return q / p, true
}

// memoryUsed is the memory in bytes that a cgroup directory cannot give back:
// what it is charged for, less the page cache the kernel drops first. That is
// what the kernel's OOM killer and kubelet's evictions go by.
func (c cgroup) memoryUsed(dir string) (int64, bool) {
	name, inactive := "memory.usage_in_bytes", "total_inactive_file"
	if c.V2 {
		name, inactive = "memory.current", "inactive_file"
	}
	used, found := machine.Number(filepath.Join(dir, name))
	if !found {
		return 0, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return used, true
	}
	value, _ := machine.After(string(stat), inactive+" ")
	cached, _ := strconv.ParseInt(value, 10, 64) // 0 where it is not there
	return max(0, used-cached), true
}

// pidsLimit is the limit on processes and threads that a cgroup directory sets.
func pidsLimit(dir string) (int64, bool) {
	return machine.Number(filepath.Join(dir, "pids.max"))
}
