// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
)

const shmPath = "/dev/shm"

// CollectSHM reads the state of /dev/shm, tries to create a file in it, and reads System V's
// settings. If /dev/shm is missing, that is a fact and not an error.
func CollectSHM(ctx context.Context, o machine.Options) (*facts.SHM, error) {
	seen := &facts.SHM{RemoveIPC: removeIPC(o)}
	if err := systemV(o, seen); err != nil {
		return nil, err
	}
	// For years /dev/shm was a link to /run/shm, so this resolves links first.
	dir, err := filepath.EvalSymlinks(o.At(shmPath))
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err != nil {
		return nil, err
	}
	seen.Exists = true
	var info unix.Stat_t
	if err := unix.Stat(dir, &info); err != nil {
		return nil, err
	}
	seen.Mode = fmt.Sprintf("%o", info.Mode&^unix.S_IFMT) // in the notation of chmod(1)

	table, err := machine.Mounts(o)
	if err != nil {
		return nil, err
	}
	if m := machine.MountOf(table, o.Without(dir)); m != nil {
		seen.Mounted = m.MountPoint == o.Without(dir)
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

// shmSizes reads how much fits into /dev/shm. A tmpfs without a size counts no blocks. Only memory
// limits it, so its size is the machine's memory.
func shmSizes(o machine.Options, dir string, seen *facts.SHM) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("statfs %s: %w", shmPath, err)
	}
	seen.Size, seen.Free, seen.FreeInodes = machine.Sizes(&s)
	if s.Blocks == 0 {
		info, err := meminfo(o)
		if err != nil {
			return err
		}
		seen.Size, seen.Free = bytesOf(info.MemTotalBytes), bytesOf(info.MemAvailableBytes)
	}
	return nil
}

// systemV reads kernel.shmmax, shmall and shmmni. The default values of the first two are close to
// the largest 64-bit number.
func systemV(o machine.Options, seen *facts.SHM) error {
	for name, into := range map[string]*uint64{"shmmax": &seen.ShmMax, "shmall": &seen.ShmAll, "shmmni": &seen.ShmMni} {
		n, err := strconv.ParseUint(machine.Line(o.At("/proc/sys/kernel/"+name)), 10, 64)
		if err != nil {
			return fmt.Errorf("/proc/sys/kernel/%s cannot be read", name)
		}
		*into = n
	}
	return nil
}

// optionsOf joins the options of the mount and of the file system, sorted. It leaves out the size,
// which is a separate fact.
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

// tryToWrite creates a file, reserves one page in it as NCCL reserves its segments, and closes it.
// The file has no name, so nothing can stay behind even if preflight crashes. On a file system that
// does not support nameless files, the file gets a name. The name is removed before the file is
// filled.
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

// removeIPC returns whether systemd-logind removes a user's shared memory when the user's last
// login ends. The values are "yes", "no", or "" if the machine has no logind.
func removeIPC(o machine.Options) string {
	installed := machine.Exists(o.At("/usr/lib/systemd/systemd-logind")) || machine.Exists(o.At("/lib/systemd/systemd-logind"))
	if !installed || !machine.Exists(o.At("/run/systemd/system")) { // the second path is the test of sd_booted(3)
		return ""
	}
	setting, builtIn := "", ""
	for _, path := range logindFiles(o) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		set, commented := parseRemoveIPC(string(text))
		setting, builtIn = cmp.Or(set, setting), cmp.Or(commented, builtIn)
	}
	return cmp.Or(setting, builtIn, "yes")
}

// logindFiles returns the configuration files in the order in which logind reads them: the main
// file, and then the drop-ins by name. If several drop-ins have the same name, the one in the first
// directory counts (logind.conf(5)).
func logindFiles(o machine.Options) []string {
	var files []string
	for _, dir := range []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"} {
		if main := o.At(dir + "/logind.conf"); machine.Exists(main) {
			files = append(files, main)
			break
		}
	}
	dropIns := map[string]string{}
	for _, dir := range []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"} {
		found, _ := filepath.Glob(o.At(dir + "/logind.conf.d/*.conf")) // fails only on a bad pattern
		for _, path := range found {
			if name := filepath.Base(path); dropIns[name] == "" {
				dropIns[name] = path
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dropIns)) {
		files = append(files, dropIns[name])
	}
	return files
}

// parseRemoveIPC returns the value that a file sets. It also returns the compiled-in default from
// the comment in the shipped file, which is "no" in Red Hat's file.
func parseRemoveIPC(text string) (set, commented string) {
	for row := range strings.Lines(text) {
		row = strings.TrimSpace(row)
		into := &set
		if rest, isComment := strings.CutPrefix(row, "#"); isComment {
			row, into = rest, &commented
		}
		key, value, _ := strings.Cut(row, "=")
		if strings.TrimSpace(key) != "RemoveIPC" {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(value)) { // as in systemd's parse_boolean
		case "yes", "y", "true", "t", "on", "1":
			*into = "yes"
		case "no", "n", "false", "f", "off", "0":
			*into = "no"
		}
	}
	return set, commented
}
