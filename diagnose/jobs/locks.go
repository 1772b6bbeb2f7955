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
	// mostLocks is more than the ops that anybody builds at once.
	mostLocks = 16
	// lockTime is what looking for them may take: a home may be on a server that does not answer.
	lockTime = time.Second
)

// locks tells of the locks where torch builds ops for a rank. Whoever builds one has its lock open until it
// is removed; whoever comes later waits until it is gone.
//
// Source: torch 2.4 and 2.15, torch/utils/file_baton.py; torch/utils/cpp_extension.py, _get_build_directory.
func (p *process) locks(ctx context.Context, o machine.Options, all map[int]*process) {
	if p.told.Kind != facts.JobRank || p.told.Unread != "" || !slices.Contains([]string{"S", "R"}, p.stat.State) {
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
		p.told.Locks = found
		p.nap(ctx)
	}
}

// nap looks at a process again until it sleeps, for a moment: who waits for a lock looks at it ten times a second, and where
// others are at work is often met awake.
func (p *process) nap(ctx context.Context) {
	for range 15 {
		if wchan, err := p.Wchan(); err == nil && wchan != "" && wchan != "0" {
			p.told.WaitsIn = wchan
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
	seen := o.At(fmt.Sprintf("/proc/%d/root", pid))          // a container has files of its own
	for _, pattern := range []string{"*/lock", "*/*/lock"} { // without and with a folder for the release of Python
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

// holder is a process that has a file named lock open which is this one, 0 for none.
func holder(o machine.Options, lock os.FileInfo, all map[int]*process) int {
	for pid := range all {
		links, _ := filepath.Glob(o.At(fmt.Sprintf("/proc/%d/fd/*", pid))) // those of a rank can be read
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
