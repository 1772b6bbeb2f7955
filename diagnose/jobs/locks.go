// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	// mostLocks limits how many locks are recorded. It is larger than the number of ops that are
	// built at once.
	mostLocks = 16
	// lockTime limits the search for locks, because the home directory may be on a server that does
	// not answer.
	lockTime = time.Second
)

// locks records the locks of the ops that torch builds for a rank. The process that builds an op
// keeps the lock file open until it removes the file. Processes that need the op meanwhile wait
// until the lock file is removed.
//
// Source: torch 2.4 and 2.15, torch/utils/file_baton.py; torch/utils/cpp_extension.py,
// _get_build_directory.
func (p *process) locks(ctx context.Context, o machine.Options, all map[int]*process) {
	if p.job.Kind != facts.JobRank || p.job.Unread != "" || !slices.Contains([]string{"S", "R"}, p.stat.State) {
		return
	}
	dir, _ := p.Cwd()
	root := machine.TorchExtensions(func(name string) string { return p.environ[name] }, dir, "")
	if !path.IsAbs(root) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	found, err := machine.Within(ctx, func() ([]facts.BuildLock, error) { return buildLocks(o, p.PID, root, all), nil })
	if err == nil && len(found) > 0 {
		p.job.Locks = found
		p.nap(ctx)
	}
}

// nap reads the state of a process repeatedly until the process sleeps. A process that waits for a
// lock checks the lock ten times a second, so on a busy machine a single reading often finds the
// process running.
func (p *process) nap(ctx context.Context) {
	for range 15 {
		if wchan, err := p.Wchan(); err == nil && wchan != "" && wchan != "0" {
			p.job.WaitsIn = wchan
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

func buildLocks(o machine.Options, pid int, root string, all map[int]*process) (found []facts.BuildLock) {
	seen := o.At(fmt.Sprintf("/proc/%d/root", pid))          // a container has its own files
	for _, pattern := range []string{"*/lock", "*/*/lock"} { // first without, then with a directory for the Python version
		files, _ := filepath.Glob(filepath.Join(seen, root, pattern))
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil || len(found) == mostLocks {
				continue
			}
			found = append(found, facts.BuildLock{
				Path: strings.TrimPrefix(file, seen), Made: info.ModTime().UnixNano(), Age: max(0, time.Since(info.ModTime()).Seconds()),
				Holder: holder(o, info, all),
			})
		}
	}
	return found
}

// holder returns a process that has the lock file open, or 0 if no process does.
func holder(o machine.Options, lock os.FileInfo, all map[int]*process) int {
	for pid := range all {
		links, _ := filepath.Glob(o.At(fmt.Sprintf("/proc/%d/fd/*", pid))) // empty for other users' processes; a rank's own links can be read
		for _, link := range links {
			if target, err := os.Readlink(link); err != nil || path.Base(target) != "lock" {
				continue
			}
			if info, err := os.Stat(link); err == nil && os.SameFile(info, lock) {
				return pid
			}
		}
	}
	return 0
}
