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
	mostEntries  = 1 << 14         // maximum number of directory entries to read
	mostSegments = 256             // maximum number of segments to list; the largest are listed
	scanLimit    = 1 * time.Second // for reading all processes; this time is part of SHMLimit
)

// shmFile is a segment, with the properties that determine who may use it.
type shmFile struct {
	facts.Segment
	inode   uint64
	uid     uint32
	private bool // only the file's owner and root may open it
}

// visibility says which of the machine's processes a scan could see.
type visibility struct {
	all     bool
	ownUser bool // the scan saw at least the processes of preflight's own user
}

// segments lists the regular files directly in the directory, largest first. For each file it
// determines whether a process still uses it.
func segments(ctx context.Context, o machine.Options, dir string) ([]facts.Segment, error) {
	files, device, err := largest(o, dir)
	if err != nil {
		return nil, err
	}
	listed := make([]facts.Segment, 0, len(files))
	if len(files) == 0 {
		return listed, nil // no process needs to be read
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
		if used || seen.all || seen.ownUser && f.private && f.uid == us {
			f.Mapped = &used
		}
		listed = append(listed, f.Segment)
	}
	return listed, nil
}

// largest returns the largest regular files of the directory, without their owners' names. It also
// returns the device of the directory's file system.
func largest(o machine.Options, dir string) (all []shmFile, device uint64, err error) {
	entries, err := machine.ReadDir(dir, mostEntries)
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range entries {
		var s unix.Stat_t
		if !entry.Type().IsRegular() || unix.Lstat(filepath.Join(dir, entry.Name()), &s) != nil {
			continue // not a segment, or removed after the directory was listed
		}
		device = s.Dev
		all = append(all, shmFile{
			Segment: facts.Segment{
				Name: entry.Name(),
				Size: s.Blocks * 512, // st_blocks counts 512-byte blocks, whatever the block size is (stat(2))
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

// findUsers checks which of the files each process has open or mapped, and removes these files from
// unused. The files that remain in unused are not used by any process that the returned visibility
// covers.
func findUsers(ctx context.Context, o machine.Options, device uint64, unused map[uint64]bool) visibility {
	ctx, cancel := context.WithTimeout(ctx, scanLimit)
	defer cancel()
	seen := processesListed(o)
	processes, _ := filepath.Glob(o.At("/proc/[0-9]*")) // fails only on a bad pattern
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
				continue // the process is done, has ended, or cannot use the files
			}
			seen.all = false
			var s unix.Stat_t
			if unix.Stat(process, &s) == nil && s.Uid == uint32(os.Geteuid()) {
				seen.ownUser = false
			}
		}
	}
	return seen
}

// processesListed returns whose processes /proc lists here. If /proc is mounted with hidepid, it
// lacks the processes of other users. It may even lack processes of preflight's own user. That
// happens in a container with a separate PID namespace and the host's shared memory (docker run
// --ipc=host).
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
	return visibility{all: hide == "0" || hide == "off" || os.Geteuid() == 0, ownUser: true}
}

// mapsShared reports whether a process could have any shared memory mapped. It is for processes
// whose files preflight may not read. Some processes never allow that, such as an sshd that forbids
// tracing in a container without CAP_SYS_PTRACE, but every process shows its size.
func mapsShared(process string) bool {
	text, err := os.ReadFile(filepath.Join(process, "status"))
	return err == nil && parseMapsShared(string(text))
}

// parseMapsShared reads RssShmem of /proc/PID/status, which exists since Linux 4.5. A kernel thread
// has no memory, so it has neither this line nor VmRSS.
func parseMapsShared(status string) bool {
	if shared, known := machine.After(status, "RssShmem:"); known {
		return machine.FirstWord(shared) != "0"
	}
	_, hasMemory := machine.After(status, "VmRSS:")
	return hasMemory
}

// removeOpen removes the files that the process has open from unused. It reads only files in a
// directory called shm, because reading any other file could hang on a dead mount.
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

// removeMapped removes the files that the process has mapped from unused.
func removeMapped(process string, device uint64, unused map[uint64]bool) error {
	return hostsys.EachMapped(process, device, func(inode uint64) { delete(unused, inode) })
}
