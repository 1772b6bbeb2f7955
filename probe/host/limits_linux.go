// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/probe/startlimit"
)

// CollectLimits reads the limits with which this process was started. They are the limits of the
// ssh session. The ranks that pdsh will start get the same limits.
func CollectLimits(ctx context.Context, o machine.Options) (*facts.Limits, error) {
	if startlimit.NoFile == nil {
		return nil, errors.New("cannot read the limit on open files")
	}
	l := &facts.Limits{NoFile: limit(startlimit.NoFile.Soft, startlimit.NoFile.Hard)}
	for resource, into := range map[int]*facts.Limit{
		unix.RLIMIT_MEMLOCK: &l.MemLock,
		unix.RLIMIT_NPROC:   &l.NProc,
		unix.RLIMIT_STACK:   &l.Stack,
		unix.RLIMIT_CORE:    &l.Core,
	} {
		var r unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &r); err != nil {
			return nil, fmt.Errorf("limit %d cannot be read: %w", resource, err)
		}
		*into = limit(r.Cur, r.Max)
	}
	for resource, into := range map[int]**int64{unix.RLIMIT_CPU: &l.CPUTime, unix.RLIMIT_AS: &l.AddressSpace} {
		var r unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &r); err != nil {
			return nil, fmt.Errorf("limit %d cannot be read: %w", resource, err)
		}
		if soft := limit(r.Cur, r.Max).Soft; soft >= 0 {
			*into = &soft
		}
	}
	l.Ends = sessionEnd(ctx, o, os.Getppid())
	l.LocksFreely = locksFreely(o)
	var known bool
	if l.FileMax, known = machine.Number(o.At("/proc/sys/fs/file-max")); !known {
		return nil, errors.New("/proc/sys/fs/file-max cannot be read")
	}
	pidsMax := func(dir string) (int64, bool) { return machine.Number(filepath.Join(dir, "pids.max")) }
	if c, found := machine.CgroupOf(o, "self", "pids"); found {
		if most, _, limited := machine.Tightest(c, pidsMax); limited {
			l.PIDsMax = &most
		}
	}
	return l, nil
}

// locksFreely reports whether this process may lock memory, or let an adapter pin memory, beyond
// its limit. That needs the capability in the initial user namespace, in which user IDs are not
// mapped.
//
// Source: Linux 6.1, drivers/infiniband/core/umem.c, ib_umem_get, and mm/mlock.c, can_do_mlock,
// which ask capable(CAP_IPC_LOCK).
func locksFreely(o machine.Options) *bool {
	status, err := os.ReadFile(o.At("/proc/self/status"))
	if err != nil {
		return nil
	}
	capabilities, _ := machine.After(string(status), "CapEff:")
	effective, err := strconv.ParseUint(capabilities, 16, 64)
	if err != nil {
		return nil
	}
	freely := effective&(1<<unix.CAP_IPC_LOCK) != 0
	if users, err := os.ReadFile(o.At("/proc/self/uid_map")); err == nil && freely { // this file does not exist if the kernel has no user namespaces
		freely = slices.Equal(strings.Fields(string(users)), []string{"0", "0", "4294967295"})
	}
	return &freely
}

// limit converts the kernel's numbers. RLIM_INFINITY, and every number that does not fit into an
// int64, becomes -1.
func limit(soft, hard uint64) facts.Limit {
	signed := func(n uint64) int64 {
		if n > math.MaxInt64 {
			return -1
		}
		return int64(n)
	}
	return facts.Limit{Soft: signed(soft), Hard: signed(hard)}
}

// CollectMemory reads the machine's memory and the part of it that the cgroup allows, in bytes. A
// /proc/meminfo without MemAvailable causes an error.
func CollectMemory(_ context.Context, o machine.Options) (*facts.Memory, error) {
	info, err := meminfo(o)
	if err != nil {
		return nil, err
	}
	m := &facts.Memory{
		Total:     bytesOf(info.MemTotalBytes),
		Available: bytesOf(info.MemAvailableBytes),
		SwapTotal: bytesOf(info.SwapTotalBytes),
		HugePages: hugePages(info),
		THP:       parseChoice(machine.Line(o.At("/sys/kernel/mm/transparent_hugepage/enabled"))),
	}
	mode, known := machine.Number(o.At("/proc/sys/vm/overcommit_memory"))
	if !known {
		return nil, errors.New("/proc/sys/vm/overcommit_memory cannot be read")
	}
	m.Overcommit = int(mode)
	if c, found := machine.CgroupOf(o, "self", "memory"); found {
		if most, by, limited := machine.Tightest(c, c.MemoryLimit); limited {
			m.CgroupLimit, m.CgroupFile = &most, o.Without(c.MemoryFile(by))
			if used, known := c.MemoryUsed(by); known {
				m.CgroupUsed = &used
			}
		}
	}
	return m, nil
}

// meminfo reads /proc/meminfo. It returns an error if a field is missing that every kernel since
// 3.14 has. Otherwise a missing field would read as zero available bytes and cause a finding.
func meminfo(o machine.Options) (procfs.Meminfo, error) {
	proc, err := procfs.NewFS(o.At("/proc"))
	if err != nil {
		return procfs.Meminfo{}, err
	}
	info, err := proc.Meminfo()
	if err != nil {
		return procfs.Meminfo{}, fmt.Errorf("/proc/meminfo cannot be read: %w", err)
	}
	if info.MemTotalBytes == nil || info.MemAvailableBytes == nil {
		return procfs.Meminfo{}, errors.New("/proc/meminfo has no MemTotal or no MemAvailable")
	}
	return info, nil
}

// hugePages returns how many bytes of memory are reserved for huge pages. It counts huge pages of
// all sizes if the kernel reports them (since 4.16), otherwise those of the default size.
func hugePages(info procfs.Meminfo) int64 {
	if info.HugetlbBytes != nil {
		return int64(*info.HugetlbBytes)
	}
	if info.HugePagesTotal == nil {
		return 0
	}
	return int64(*info.HugePagesTotal) * bytesOf(info.HugepagesizeBytes)
}

// bytesOf returns the value of a line in /proc/meminfo, or 0 if the line is missing. Lines are
// missing if there is no swap, or if the kernel has no huge pages.
func bytesOf(field *uint64) int64 {
	if field == nil {
		return 0
	}
	return int64(*field)
}

// parseChoice returns the word in brackets of "always [madvise] never".
func parseChoice(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	choice, _, closed := strings.Cut(rest, "]")
	if !closed {
		return ""
	}
	return choice
}
