package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

const shmPath = "/dev/shm"

func collectSHM(ctx context.Context, o options) (*facts.SHM, error) {
	seen := &facts.SHM{RemoveIPC: removeIPC(o)}
	if err := systemV(o, seen); err != nil {
		return nil, err
	}
	// /dev/shm was a link to /run/shm for years, so it is resolved first.
	dir, err := filepath.EvalSymlinks(o.at(shmPath))
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err != nil {
		return nil, err
	}
	seen.Exists = true
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	seen.Mode = fmt.Sprintf("%o", unixMode(info.Mode()))

	table, err := mounts(o)
	if err != nil {
		return nil, err
	}
	if m := mountOf(table, o.without(dir)); m != nil {
		seen.Mounted = m.MountPoint == o.without(dir)
		seen.FSType, seen.Options = m.FSType, optionsOf(m)
	}
	if err := shmSizes(o, dir, seen); err != nil {
		return nil, err
	}
	if err := tryToWrite(dir); err != nil {
		seen.WriteError = err.Error()
	}
	seen.Writable = seen.WriteError == ""
	seen.Segments, err = segments(ctx, o, dir)
	return seen, err
}

// shmSizes reads how much fits. A tmpfs without a size counts no blocks at all
// and is bounded by memory alone, so memory is its size.
func shmSizes(o options, dir string, seen *facts.SHM) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("statfs %s: %w", shmPath, err)
	}
	seen.Size, seen.Free, seen.FreeInodes = sizes(&s)
	if s.Blocks == 0 {
		info, err := meminfo(o)
		if err != nil {
			return err
		}
		seen.Size, seen.Free = bytesOf(info.MemTotalBytes), bytesOf(info.MemAvailableBytes)
	}
	return nil
}

// systemV reads kernel.shmmax, shmall and shmmni; the first two are close to
// the largest 64-bit number by default.
func systemV(o options, seen *facts.SHM) error {
	for name, into := range map[string]*uint64{"shmmax": &seen.ShmMax, "shmall": &seen.ShmAll, "shmmni": &seen.ShmMni} {
		n, err := strconv.ParseUint(line(o.at("/proc/sys/kernel/"+name)), 10, 64)
		if err != nil {
			return fmt.Errorf("/proc/sys/kernel/%s cannot be read", name)
		}
		*into = n
	}
	return nil
}

// optionsOf joins the options of the mount and of the file system, sorted, and
// leaves out how large it is: sizes are facts of their own.
func optionsOf(m *procfs.MountInfo) string {
	var words []string
	for _, options := range []map[string]string{m.Options, m.SuperOptions} {
		for name, value := range options {
			switch {
			case name == "size" || name == "nr_blocks":
			case value != "":
				words = append(words, name+"="+value)
			default:
				words = append(words, name)
			}
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ",")
}

// unixMode is a mode as chmod(1) takes it, with the sticky and set-id bits.
func unixMode(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSticky: 0o1000, fs.ModeSetgid: 0o2000, fs.ModeSetuid: 0o4000} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// tryToWrite makes a file, reserves one page of it as NCCL reserves its
// segments, and lets it go. The file has no name, so nothing can stay behind
// however we end; only a file system that cannot do so gets a named one, which
// loses its name before it is filled.
func tryToWrite(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		fd, err = openUnlinked(dir)
	}
	if err != nil {
		return inWords("create a file", err)
	}
	defer unix.Close(fd)
	if err := unix.Fallocate(fd, 0, 0, int64(os.Getpagesize())); err != nil {
		return inWords("reserve a page", err)
	}
	return nil
}

func openUnlinked(dir string) (int, error) {
	name := filepath.Join(dir, fmt.Sprintf("preflight-%d", os.Getpid()))
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, err
	}
	if err := unix.Unlink(name); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func inWords(what string, err error) error {
	return fmt.Errorf("cannot %s in %s: %w", what, shmPath, err)
}
