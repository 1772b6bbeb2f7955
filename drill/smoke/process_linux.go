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

// segments are the files in a directory of shared memory, by name.
type segments map[string]uint64 // inode

// made are how the names begin of what libraries of a rank make there, and leave when they are
// killed: NCCL (src/misc/shmutils.cc), torch (libtorch_cpu.so, 2.9.1), LLVM's OpenMP, which counts
// _exit as that too (/dev/shm/__KMP_REGISTERED_LIB_PID_UID), and CUDA (sglang's pull request 33929).
var made = []string{"nccl-", "torch_", "__KMP_REGISTERED_LIB_", "cuda.shm."}

// shared are the files of our user in the directory that a rank may have made.
func shared(dir string) segments {
	entries, _ := os.ReadDir(dir) // of what cannot be listed nothing is removed
	found := segments{}
	for _, entry := range entries {
		var s unix.Stat_t
		ours := func(prefix string) bool { return strings.HasPrefix(entry.Name(), prefix) }
		if entry.Type().IsRegular() && slices.ContainsFunc(made, ours) && unix.Lstat(filepath.Join(dir, entry.Name()), &s) == nil && int(s.Uid) == os.Geteuid() {
			found[entry.Name()] = s.Ino
		}
	}
	return found
}

// removeSince removes what has come since and no process has mapped, and says what of it is left.
func removeSince(dir string, before segments) (left []string) {
	now := shared(dir)
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

// mapped are the inodes of what lies in the directory and processes of our user have mapped, as
// theirs alone can be; nil where their list cannot be read.
func mapped(dir string) map[uint64]bool {
	var of unix.Stat_t
	processes, err := os.ReadDir("/proc")
	if err != nil || unix.Stat(dir, &of) != nil {
		return nil
	}
	found := map[uint64]bool{}
	for _, process := range processes {
		// What is no process has no such file, nor has one that is gone.
		_ = hostsys.EachMapped(filepath.Join("/proc", process.Name()), of.Dev, func(inode uint64) { found[inode] = true })
	}
	return found
}

// leaveNoCore has a crash leave no file. The process may have ended before, and then it did.
func leaveNoCore(pid int) { _ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) }

// waitsIn is where in the kernel a process waits, ": it waits in nv_open", "" where it does not say.
func waitsIn(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan")
	if where := strings.TrimSpace(string(text)); where != "" && where != "0" {
		return ": it waits in " + clip(where)
	}
	return ""
}
