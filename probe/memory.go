package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/procfs"

	"preflight/facts"
)

func collectMemory(_ context.Context, o options) (*facts.Memory, error) {
	info, err := meminfo(o)
	if err != nil {
		return nil, err
	}
	m := &facts.Memory{
		Total:     bytesOf(info.MemTotalBytes),
		Available: bytesOf(info.MemAvailableBytes),
		SwapTotal: bytesOf(info.SwapTotalBytes),
		HugePages: hugePages(info),
		THP:       parseChoice(line(o.at("/sys/kernel/mm/transparent_hugepage/enabled"))),
	}
	mode, known := number(o.at("/proc/sys/vm/overcommit_memory"))
	if !known {
		return nil, errors.New("/proc/sys/vm/overcommit_memory cannot be read")
	}
	m.Overcommit = int(mode)
	if c, found := ownCgroup(o, "memory"); found {
		if most, by, limited := tightest(c, c.memoryLimit); limited {
			m.CgroupLimit = &most
			if used, known := c.memoryUsed(by); known {
				m.CgroupUsed = &used
			}
		}
	}
	return m, nil
}

// meminfo reads /proc/meminfo, and refuses one that lacks what every kernel
// since 3.14 has: zero bytes available would be a finding, not a fact.
func meminfo(o options) (procfs.Meminfo, error) {
	proc, err := procfs.NewFS(o.at("/proc"))
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

// hugePages is the memory in bytes set aside for huge pages: of all sizes where
// the kernel says so (since 4.16), else of the default size.
func hugePages(info procfs.Meminfo) int64 {
	if info.HugetlbBytes != nil {
		return int64(*info.HugetlbBytes)
	}
	if info.HugePagesTotal == nil {
		return 0
	}
	return int64(*info.HugePagesTotal) * bytesOf(info.HugepagesizeBytes)
}

// bytesOf is a line of /proc/meminfo, 0 for one that is not there (no swap, no
// huge pages compiled in).
func bytesOf(field *uint64) int64 {
	if field == nil {
		return 0
	}
	return int64(*field)
}

// parseChoice is the word in brackets of "always [madvise] never".
func parseChoice(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	choice, _, closed := strings.Cut(rest, "]")
	if !closed {
		return ""
	}
	return choice
}
