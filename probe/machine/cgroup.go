// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// Cgroup is the location of a process's cgroup for one controller.
type Cgroup struct {
	Dir string // the cgroup's own directory
	Top string // the mount point; no directory above it is visible
	V2  bool
}

// CgroupOf returns the cgroup of a process for a controller. The pid "self" stands for this
// process. It returns false if the controller does not exist or cgroups are not mounted.
func CgroupOf(o Options, pid, controller string) (Cgroup, bool) {
	text, err := os.ReadFile(o.At(fmt.Sprintf("/proc/%s/cgroup", pid)))
	if err != nil {
		return Cgroup{}, false
	}
	table, err := Mounts(o)
	if err != nil {
		return Cgroup{}, false
	}
	c, found := findCgroup(string(text), table, controller)
	return Cgroup{Dir: o.At(c.Dir), Top: o.At(c.Top), V2: c.V2}, found
}

// findCgroup combines the lines of /proc/self/cgroup, such as "4:memory:/user.slice" and
// "0::/user.slice" (cgroups(7)), with the mounts. A controller in a version 1 hierarchy is not in
// version 2, so version 1 is tried first.
func findCgroup(memberships string, table []*procfs.MountInfo, controller string) (Cgroup, bool) {
	for _, v2 := range []bool{false, true} {
		for row := range strings.Lines(memberships) {
			parts := strings.SplitN(strings.TrimSuffix(row, "\n"), ":", 3)
			if len(parts) != 3 || v2 != (parts[1] == "") || !v2 && !slices.Contains(strings.Split(parts[1], ","), controller) {
				continue
			}
			for _, mount := range table {
				if v2 && mount.FSType == "cgroup2" || !v2 && mount.FSType == "cgroup" && Has(mount, controller) {
					return Cgroup{Dir: pathInMount(mount, parts[2]), Top: mount.MountPoint, V2: v2}, true
				}
			}
		}
	}
	return Cgroup{}, false
}

// pathInMount returns where a cgroup path is below a mount. A container's mount shows only the
// container's own subtree. For a path outside of the subtree (a cgroup namespace prints it with
// ".."), it returns the mount point.
func pathInMount(mount *procfs.MountInfo, path string) string {
	if !Below(path, mount.Root) || strings.HasPrefix(path, "/..") {
		return mount.MountPoint
	}
	return filepath.Join(mount.MountPoint, strings.TrimPrefix(path, strings.TrimSuffix(mount.Root, "/")))
}

// Upward yields the cgroup's directory and its ancestors, as far as these are visible.
func (c Cgroup) Upward() iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := c.Dir; Below(dir, c.Top); dir = filepath.Dir(dir) {
			if !yield(dir) || dir == c.Top {
				return
			}
		}
	}
}

// MemoryLimit returns the limit in bytes that a cgroup directory sets. In version 1, the largest
// multiple of the page size means no limit. In version 2, memory.high counts too: above it, the
// kernel slows every process of the cgroup down.
func (c Cgroup) MemoryLimit(dir string) (int64, bool) {
	limit, set := Number(c.MemoryFile(dir))
	return limit, set && limit < 1<<62
}

// MemoryFile returns the file with the limit of MemoryLimit.
func (c Cgroup) MemoryFile(dir string) string {
	if !c.V2 {
		return filepath.Join(dir, "memory.limit_in_bytes")
	}
	most, isMost := Number(filepath.Join(dir, "memory.max"))
	if high, isHigh := Number(filepath.Join(dir, "memory.high")); isHigh && (!isMost || high < most) {
		return filepath.Join(dir, "memory.high")
	}
	return filepath.Join(dir, "memory.max")
}

// Tightest returns the smallest limit that the cgroup or one of its ancestors sets, and the
// directory that sets this limit. It returns false if there is no limit.
func Tightest[N cmp.Ordered](c Cgroup, limit func(dir string) (N, bool)) (smallest N, by string, found bool) {
	for dir := range c.Upward() {
		if n, set := limit(dir); set && (!found || n < smallest) {
			smallest, by, found = n, dir, true
		}
	}
	return smallest, by, found
}

// CPUQuota returns the CPU time that a cgroup directory allows, as a number of CPUs.
func (c Cgroup) CPUQuota(dir string) (float64, bool) {
	if c.V2 {
		return parseCPUMax(Line(filepath.Join(dir, "cpu.max")))
	}
	quota := Line(filepath.Join(dir, "cpu.cfs_quota_us"))
	return parseCPUMax(quota + " " + Line(filepath.Join(dir, "cpu.cfs_period_us")))
}

// parseCPUMax parses microseconds of CPU time per period, such as "200000 100000". "max" means no
// limit, and so does -1 in version 1.
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

// MemoryUsed returns how much memory in bytes a cgroup cannot give back. That is its usage without
// the page cache that the kernel drops first. The kernel's OOM killer and kubelet's evictions use
// the same number.
func (c Cgroup) MemoryUsed(dir string) (int64, bool) {
	name, inactive := "memory.usage_in_bytes", "total_inactive_file"
	if c.V2 {
		name, inactive = "memory.current", "inactive_file"
	}
	used, found := Number(filepath.Join(dir, name))
	if !found {
		return 0, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return used, true
	}
	value, _ := After(string(stat), inactive+" ")
	cached, _ := strconv.ParseInt(value, 10, 64) // 0 if the value is missing
	return max(0, used-cached), true
}
