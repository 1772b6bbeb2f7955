package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
)

// placeLimit is how long one place may take. It is well inside diskLimit, so
// that a hung mount costs its own places and no others.
const placeLimit = 2 * time.Second

// filesystem is what a place stands on, as the file system itself told.
type filesystem struct {
	path     string // nearest existing directory, symbolic links resolved
	exists   bool   // that it is the place itself
	writable bool
	statfs   unix.Statfs_t
}

func CollectDisk(ctx context.Context, o machine.Options) (*facts.Disk, error) {
	return disk(ctx, o, filesystemOf)
}

// disk looks at every place at once, each in a goroutine that is given up when
// it hangs. The mount table is read last, when every automount has happened.
func disk(ctx context.Context, o machine.Options, stand func(machine.Options, string) (filesystem, error)) (*facts.Disk, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, placeLimit, fmt.Errorf("no answer within %s: a hung mount?", placeLimit))
	defer cancel()
	seen := &facts.Disk{Places: places(o, machine.Session(o).Home, os.Getenv)}
	ground := make([]filesystem, len(seen.Places))
	var all sync.WaitGroup
	for i := range seen.Places {
		all.Go(func() {
			place := &seen.Places[i]
			var err error
			ground[i], err = machine.Within(ctx, func() (filesystem, error) { return stand(o, place.Path) })
			if err != nil {
				place.Problem = err.Error()
				ground[i] = filesystem{path: place.Path} // the mount below it can still be named
			}
		})
	}
	all.Wait()
	table, err := machine.Mounts(o)
	if err != nil {
		return nil, err
	}
	for i := range seen.Places {
		place, found := &seen.Places[i], &ground[i]
		if m := machine.MountOf(table, found.path); m != nil {
			place.FSType, place.Source = m.FSType, m.Source
			place.NoExec, place.ReadOnly = machine.Has(m, "noexec"), machine.Has(m, "ro")
		}
		if place.Problem == "" {
			place.Exists, place.Writable = found.exists, found.writable
			place.Total, place.Free, place.FreeInodes = sizes(&found.statfs)
		}
	}
	return seen, nil
}

// places are the directories that a launch writes to, by the rules of whoever
// writes there: huggingface_hub (constants.py), Triton (runtime/cache.py), torch
// (utils/cpp_extension.py), and DeepSpeed where the configuration has it offload.
func places(o machine.Options, home string, env func(string) string) []facts.Place {
	home = cmp.Or(env("HOME"), home)
	cache := cmp.Or(env("XDG_CACHE_HOME"), filepath.Join(home, ".cache"))
	all := []facts.Place{
		{Role: "workdir", Path: o.WorkDir},
		{Role: "tmp", Path: cmp.Or(env("TMPDIR"), "/tmp")},
		{Role: "home", Path: home},
		{Role: "hf-cache", Path: cmp.Or(env("HF_HUB_CACHE"), env("HF_HOME"), filepath.Join(cache, "huggingface"))},
		{Role: "triton-cache", Path: cmp.Or(env("TRITON_CACHE_DIR"), filepath.Join(cmp.Or(env("TRITON_HOME"), home), ".triton"))},
		{Role: "torch-extensions", Path: machine.TorchExtensions(env, home)},
	}
	for i := range all {
		if strings.HasPrefix(all[i].Path, "~/") {
			all[i].Path = filepath.Join(home, all[i].Path[2:]) // huggingface_hub expands it
		}
	}
	for _, role := range slices.Sorted(maps.Keys(o.Offload)) {
		path := o.Offload[role]
		if !filepath.IsAbs(path) { // as DeepSpeed takes it, a "~" included
			path = filepath.Join(o.WorkDir, path)
		}
		all = append(all, facts.Place{Role: role, Path: path})
	}
	var known []facts.Place
	for _, place := range all {
		if filepath.IsAbs(place.Path) { // no home, no working directory: nothing to look at
			place.Path = filepath.Clean(place.Path)
			known = append(known, place)
		}
	}
	return known
}

// filesystemOf asks the file system about a place, or about its nearest parent. Every
// call in it may hang on a dead mount.
func filesystemOf(o machine.Options, path string) (filesystem, error) {
	dir, err := nearestExisting(o.At(path))
	if err != nil {
		return filesystem{}, err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return filesystem{}, err
	}
	seen := filesystem{
		path:   o.Without(resolved),
		exists: dir == o.At(path),
		// access(2) asks the server of a network file system as well, and tries nothing.
		writable: unix.Faccessat(unix.AT_FDCWD, resolved, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil,
	}
	for {
		err := unix.Statfs(resolved, &seen.statfs)
		if !errors.Is(err, unix.EINTR) {
			return seen, err
		}
	}
}

// nearestExisting is the path itself, or the first of its parents that exists.
func nearestExisting(path string) (string, error) {
	for {
		_, err := os.Stat(path)
		if err == nil || path == "/" {
			return path, err
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return "", err
		}
		path = filepath.Dir(path)
	}
}

// sizes are the bytes a file system has, the bytes we may still write, and the
// files we may still make. One that makes inodes as it needs them (btrfs, tmpfs
// with nr_inodes=0) says that 0 of 0 are free, which is no bound at all.
func sizes(s *unix.Statfs_t) (total, free, inodes int64) {
	block := uint64(cmp.Or(s.Frsize, s.Bsize))
	inodes = math.MaxInt64
	if s.Files > 0 {
		inodes = clamp(s.Ffree)
	}
	return clamp(s.Blocks * block), clamp(s.Bavail * block), inodes
}

// clamp keeps what a network file system makes up for "plenty" in range.
func clamp(n uint64) int64 {
	return int64(min(n, math.MaxInt64))
}
