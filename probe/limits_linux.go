package probe

import (
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/startlimit"
)

// collectLimits reads the limits this process was started with, which are those
// of the ssh session and so of the ranks that pdsh will start.
func collectLimits(_ context.Context, o options) (*facts.Limits, error) {
	if startlimit.NoFile == nil {
		return nil, errors.New("the kernel did not tell the limit on open files")
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
	var known bool
	if l.FileMax, known = number(o.at("/proc/sys/fs/file-max")); !known {
		return nil, errors.New("/proc/sys/fs/file-max cannot be read")
	}
	if c, found := ownCgroup(o, "pids"); found {
		if most, _, limited := tightest(c, pidsLimit); limited {
			l.PIDsMax = &most
		}
	}
	return l, nil
}

// limit turns the kernel's numbers into ours: RLIM_INFINITY, and what no int64
// can hold, is -1.
func limit(soft, hard uint64) facts.Limit {
	signed := func(n uint64) int64 {
		if n > math.MaxInt64 {
			return -1
		}
		return int64(n)
	}
	return facts.Limit{Soft: signed(soft), Hard: signed(hard)}
}
