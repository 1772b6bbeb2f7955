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

// PlaceLimit is the time limit for one place. It is well below the limits of the sections that
// examine places. So a mount that hangs affects only its own places.
const PlaceLimit = 2 * time.Second

// filesystem describes a place's file system, as the file system reports it.
type filesystem struct {
	path     string // nearest existing directory, with symbolic links resolved
	exists   bool   // path is the place itself
	writable bool
	inTheWay string // a file at the path where the place needs a directory
	owner    *int   // the user ID of the place's owner, nil if the place does not exist
	statfs   unix.Statfs_t
}

// LookAtPlaces sets the facts about the file systems of places whose paths are given.
func LookAtPlaces(ctx context.Context, o Options, places []facts.Place) error {
	return lookAtPlaces(ctx, o, places, filesystemOf)
}

// lookAtPlaces examines all places at the same time. Each place has a goroutine, which is abandoned
// if it hangs. lookAtPlaces reads the mount table at the end, when all automounts have happened.
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
				ground[i] = filesystem{path: place.Path} // the place's mount can still be named
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
			place.FSType, place.Source, place.Mount = m.FSType, m.Source, m.MountPoint
			place.NoExec, place.ReadOnly = Has(m, "noexec"), Has(m, "ro")
		}
		if place.Problem == "" {
			place.Exists, place.Writable, place.InTheWay, place.Owner = found.exists, found.writable, found.inTheWay, found.owner
			place.Total, place.Free, place.FreeInodes = Sizes(&found.statfs)
		}
	}
	return nil
}

// filesystemOf asks the file system about a place, or about the nearest existing parent. Every call
// in this function may hang on a dead mount.
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
		// access(2) also asks the server of a network file system. It writes nothing.
		writable: inTheWay == "" && unix.Faccessat(unix.AT_FDCWD, resolved, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil,
	}
	var stat unix.Stat_t
	if seen.exists && unix.Stat(resolved, &stat) == nil {
		owner := int(stat.Uid)
		seen.owner = &owner
	}
	for {
		err := unix.Statfs(resolved, &seen.statfs)
		if !errors.Is(err, unix.EINTR) {
			return seen, err
		}
	}
}

// nearestExisting returns the path itself, or its nearest existing parent. It also returns what
// blocks the creation of a directory: a file, or a dangling link.
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

// Sizes returns three numbers: the size of a file system in bytes, the bytes that this user may
// still write, and the files that this user may still create. A file system that creates inodes as
// needed (btrfs, tmpfs with nr_inodes=0) reports 0 of 0 free, which means no limit.
func Sizes(s *unix.Statfs_t) (total, free, inodes int64) {
	block := uint64(cmp.Or(s.Frsize, s.Bsize))
	inodes = math.MaxInt64
	if s.Files > 0 {
		inodes = clamp(s.Ffree)
	}
	return clamp(s.Blocks * block), clamp(s.Bavail * block), inodes
}

// clamp limits n to the largest int64. Network file systems report huge numbers for "plenty".
func clamp(n uint64) int64 {
	return int64(min(n, math.MaxInt64))
}
