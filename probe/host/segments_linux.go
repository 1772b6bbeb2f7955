// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

const (
	mostEntries  = 1 << 14         // directory entries looked at
	mostSegments = 256             // segments listed, the largest
	scanLimit    = 1 * time.Second // for asking all processes; inside shmLimit
)

// shmFile is a segment with what tells who may use it.
type shmFile struct {
	facts.Segment
	inode   uint64
	uid     uint32
	private bool // nobody but its owner and root may open it
}

// visibility is how much of the machine's processes a scan could see.
type visibility struct {
	all  bool
	ours bool // those of our own user, at least
}

// segments lists the regular files directly in the directory, largest first,
// and finds out which of them a process still uses.
func segments(ctx context.Context, o machine.Options, dir string) ([]facts.Segment, error) {
	files, device, err := largest(o, dir)
	if err != nil {
		return nil, err
	}
	listed := make([]facts.Segment, 0, len(files))
	if len(files) == 0 {
		return listed, nil // and no process needs to be asked
	}
	unused := map[uint64]bool{}
	for _, f := range files {
		unused[f.inode] = true
	}
	seen := findUsers(ctx, o, device, unused)
	us := uint32(os.Geteuid())
	owners := map[uint32]string{}
	for _, f := range files {
		if owners[f.uid] == "" {
			owners[f.uid] = machine.Owner(o, int(f.uid))
		}
		f.Owner = owners[f.uid]
		used := !unused[f.inode]
		if used || seen.all || seen.ours && f.private && f.uid == us {
			f.Mapped = &used
		}
		listed = append(listed, f.Segment)
	}
	return listed, nil
}

// largest are the largest regular files of the directory, not yet with their
// owners' names, and the device they are all on.
func largest(o machine.Options, dir string) (all []shmFile, device uint64, err error) {
	entries, err := machine.ReadDir(dir, mostEntries)
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range entries {
		var s unix.Stat_t
		if !entry.Type().IsRegular() || unix.Lstat(filepath.Join(dir, entry.Name()), &s) != nil {
			continue // no segment, or removed between the two looks
		}
		device = s.Dev
		all = append(all, shmFile{
			Segment: facts.Segment{
				Name: entry.Name(),
				Size: s.Blocks * 512, // st_blocks counts these, whatever the block size is (stat(2))
				Age:  max(0, time.Since(time.Unix(s.Mtim.Unix())).Seconds()),
			},
			inode:   s.Ino,
			uid:     s.Uid,
			private: s.Mode&0o077 == 0,
		})
	}
	slices.SortFunc(all, func(a, b shmFile) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), mostSegments)], device, nil
}

// findUsers asks every process which of the files it has open or mapped, and
// takes those out of unused. What is left there is unused as far as the view
// that it returns goes.
func findUsers(ctx context.Context, o machine.Options, device uint64, unused map[uint64]bool) visibility {
	ctx, cancel := context.WithTimeout(ctx, scanLimit)
	defer cancel()
	seen := processesListed(o)
	processes, _ := filepath.Glob(o.At("/proc/[0-9]*")) // fails on a bad pattern only
	for _, process := range processes {
		if len(unused) == 0 {
			return seen
		}
		if ctx.Err() != nil {
			return visibility{}
		}
		for _, look := range []func(string, uint64, map[uint64]bool) error{removeOpen, removeMapped} {
			err := look(process, device, unused)
			if !errors.Is(err, fs.ErrPermission) || !mapsShared(process) {
				continue // looked at, or ended meanwhile, or cannot be a user
			}
			seen.all = false
			var s unix.Stat_t
			if unix.Stat(process, &s) == nil && s.Uid == uint32(os.Geteuid()) {
				seen.ours = false
			}
		}
	}
	return seen
}

// processesListed is whose processes our /proc lists. It lacks those of others
// when it is mounted with hidepid, and even our own in a container that has its
// own processes but the host's shared memory (docker run --ipc=host).
func processesListed(o machine.Options) visibility {
	ipc, _ := os.Readlink(o.At("/proc/self/ns/ipc"))
	pid, _ := os.Readlink(o.At("/proc/self/ns/pid"))
	if ipc == machine.InitialIPC && pid != machine.InitialPID {
		return visibility{}
	}
	table, err := machine.Mounts(o)
	if err != nil {
		return visibility{}
	}
	proc := machine.MountOf(table, "/proc")
	if proc == nil {
		return visibility{}
	}
	hide := cmp.Or(proc.SuperOptions["hidepid"], "0")
	return visibility{all: hide == "0" || hide == "off" || os.Geteuid() == 0, ours: true}
}

// mapsShared is whether a process that does not let us look at its files may
// have any of shared memory mapped. Some never let us, such as a sshd that
// forbids tracing in a container without CAP_SYS_PTRACE, but all tell their size.
func mapsShared(process string) bool {
	text, err := os.ReadFile(filepath.Join(process, "status"))
	return err == nil && parseMapsShared(string(text))
}

// parseMapsShared reads RssShmem of /proc/PID/status, which there is since
// Linux 4.5. A process without memory, a kernel thread, has neither line.
func parseMapsShared(status string) bool {
	if shared, known := machine.After(status, "RssShmem:"); known {
		return machine.FirstWord(shared) != "0"
	}
	_, hasMemory := machine.After(status, "VmRSS:")
	return hasMemory
}

// removeOpen takes the files that the process has open out of unused. Only what
// lies in a directory called shm is asked for more: to ask about any other file
// could hang on a dead mount.
func removeOpen(process string, device uint64, unused map[uint64]bool) error {
	dir := filepath.Join(process, "fd")
	descriptors, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range descriptors {
		link := filepath.Join(dir, d.Name())
		target, err := os.Readlink(link)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		if err != nil || !strings.Contains(target, "/shm/") {
			continue
		}
		var s unix.Stat_t
		if unix.Stat(link, &s) == nil && s.Dev == device {
			delete(unused, s.Ino)
		}
	}
	return nil
}

// removeMapped takes the files that the process has mapped out of unused.
func removeMapped(process string, device uint64, unused map[uint64]bool) error {
	return hostsys.EachMapped(process, device, func(inode uint64) { delete(unused, inode) })
}
