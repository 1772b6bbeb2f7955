// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"preflight/internal/hostsys"
)

// Segments maps the name of each file in a shared-memory directory to its inode.
type Segments map[string]uint64

// made lists the name prefixes of the files that a rank's libraries create there and leave behind
// if the rank is killed. The libraries are NCCL (src/misc/shmutils.cc), torch (libtorch_cpu.so,
// 2.9.1), CUDA (sglang's pull request 33929), and LLVM's OpenMP
// (/dev/shm/__KMP_REGISTERED_LIB_PID_UID). OpenMP also leaves its file behind after _exit.
var made = []string{"nccl-", "torch_", "__KMP_REGISTERED_LIB_", "cuda.shm.", "deepspeed_allreduce_buffer_"}

// SharedMemory returns the files in the directory that belong to preflight's user and that a rank may
// have created.
func SharedMemory(dir string) Segments {
	entries, _ := os.ReadDir(dir) // if the directory cannot be listed, no file is removed
	found := Segments{}
	for _, entry := range entries {
		var s unix.Stat_t
		ours := func(prefix string) bool { return strings.HasPrefix(entry.Name(), prefix) }
		if entry.Type().IsRegular() && slices.ContainsFunc(made, ours) && unix.Lstat(filepath.Join(dir, entry.Name()), &s) == nil && int(s.Uid) == os.Geteuid() {
			found[entry.Name()] = s.Ino
		}
	}
	return found
}

// RemoveSince removes the files that are not in before and that no process has mapped. It returns
// the files that remain.
func RemoveSince(dir string, before Segments) (left []string) {
	now := SharedMemory(dir)
	for name, inode := range before {
		if now[name] == inode {
			delete(now, name)
		}
	}
	if len(now) == 0 {
		return nil
	}
	used := mapped(dir)
	for name, inode := range now {
		path := filepath.Join(dir, name)
		if used == nil || used[inode] || os.Remove(path) != nil {
			left = append(left, path)
		}
	}
	slices.Sort(left)
	return left
}

// mapped returns the inodes of the directory's files that processes of preflight's user have
// mapped. Processes of other users cannot map these files. The result is nil if the process list
// cannot be read.
func mapped(dir string) map[uint64]bool {
	var of unix.Stat_t
	processes, err := os.ReadDir("/proc")
	if err != nil || unix.Stat(dir, &of) != nil {
		return nil
	}
	found := map[uint64]bool{}
	for _, process := range processes {
		// Entries that are not processes have no such file. Processes that have ended have none
		// either.
		_ = hostsys.EachMapped(filepath.Join("/proc", process.Name()), of.Dev, func(inode uint64) { found[inode] = true })
	}
	return found
}

// leaveNoCore keeps a crash from leaving a core file. If the process has already ended, it may have
// left one.
func leaveNoCore(pid int) { _ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) }

// waitsIn returns where in the kernel a process waits, as in ": it waits in nv_open". It returns ""
// if that is unknown.
func waitsIn(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan")
	if where := strings.TrimSpace(string(text)); where != "" && where != "0" {
		return ": it waits in " + clip(where)
	}
	return ""
}
