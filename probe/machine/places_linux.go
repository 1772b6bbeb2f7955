// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"preflight/facts"
)

// PlaceLimit is how long one place may take. It is well inside the limits of the sections that look at places, so
// that a hung mount costs its own places and no others.
const PlaceLimit = 2 * time.Second

// filesystem is what a place stands on, as the file system itself told.
type filesystem struct {
	path     string // nearest existing directory, symbolic links resolved
	exists   bool   // that it is the place itself
	writable bool
	inTheWay string // what is there and is no directory
	statfs   unix.Statfs_t
}

// LookAtPlaces tells of directories what they stand on, by their paths.
func LookAtPlaces(ctx context.Context, o Options, places []facts.Place) error {
	return lookAtPlaces(ctx, o, places, filesystemOf)
}

// lookAtPlaces looks at every place at once, each in a goroutine that is given up when
// it hangs. The mount table is read last, when every automount has happened.
func lookAtPlaces(ctx context.Context, o Options, places []facts.Place, stand func(Options, string) (filesystem, error)) error {
	if len(places) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, PlaceLimit, fmt.Errorf("no answer within %s: a hung mount?", PlaceLimit))
	defer cancel()
	ground := make([]filesystem, len(places))
	var all sync.WaitGroup
	for i := range places {
		all.Go(func() {
			place := &places[i]
			var err error
			ground[i], err = Within(ctx, func() (filesystem, error) { return stand(o, place.Path) })
			if err != nil {
				place.Problem = err.Error()
				ground[i] = filesystem{path: place.Path} // the mount below it can still be named
			}
		})
	}
	all.Wait()
	table, err := readMounts(o)
	if err != nil {
		return err
	}
	for i := range places {
		place, found := &places[i], &ground[i]
		if m := MountOf(table, found.path); m != nil {
			place.FSType, place.Source = m.FSType, m.Source
			place.NoExec, place.ReadOnly = Has(m, "noexec"), Has(m, "ro")
		}
		if place.Problem == "" {
			place.Exists, place.Writable, place.InTheWay = found.exists, found.writable, found.inTheWay
			place.Total, place.Free, place.FreeInodes = Sizes(&found.statfs)
		}
	}
	return nil
}

// filesystemOf asks the file system about a place, or about its nearest parent. Every
// call in it may hang on a dead mount.
func filesystemOf(o Options, path string) (filesystem, error) {
	dir, inTheWay, err := nearestExisting(o.At(path))
	if err != nil {
		return filesystem{}, err
	}
	if inTheWay != "" {
		inTheWay = o.Without(inTheWay)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return filesystem{}, err
	}
	seen := filesystem{
		path:     o.Without(resolved),
		exists:   dir == o.At(path),
		inTheWay: inTheWay,
		// access(2) asks the server of a network file system as well, and tries nothing.
		writable: inTheWay == "" && unix.Faccessat(unix.AT_FDCWD, resolved, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil,
	}
	for {
		err := unix.Statfs(resolved, &seen.statfs)
		if !errors.Is(err, unix.EINTR) {
			return seen, err
		}
	}
}

// nearestExisting is the path itself, or the first of its parents that exists, and what
// lies where a directory must be: a file, or a link to nothing.
func nearestExisting(path string) (dir, inTheWay string, err error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir() && path != "/":
			inTheWay = path
		case err == nil || path == "/":
			return path, inTheWay, err
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return "", "", err
		case BrokenLink(path) != "":
			inTheWay = path
		}
		path = filepath.Dir(path)
	}
}

// Sizes are the bytes a file system has, the bytes we may still write, and the
// files we may still make. One that makes inodes as it needs them (btrfs, tmpfs
// with nr_inodes=0) says that 0 of 0 are free, which is no bound at all.
func Sizes(s *unix.Statfs_t) (total, free, inodes int64) {
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
