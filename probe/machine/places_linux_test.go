// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

const mountTable = `22 1 8:1 / / rw - xfs /dev/sda1 rw
23 22 0:40 / /home rw - nfs4 filer:/export/home rw
24 22 0:41 / /scratch rw,noexec - lustre mds@o2ib:/scratch ro
`

func TestHungMountCostsOnlyItsPlaces(t *testing.T) {
	o := Options{Root: t.TempDir()}
	plant(t, o, "/proc/self/mountinfo", mountTable)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		defer close(release)
		places := []facts.Place{{Path: "/scratch/job"}, {Path: "/home/ml"}, {Path: "/tmp"}, {Path: "/home/locked"}, {Path: "/home/ml/.triton"}}
		err := lookAtPlaces(t.Context(), o, places, func(_ Options, path string) (filesystem, error) {
			switch path {
			case "/home/ml":
				<-release
			case "/home/locked":
				return filesystem{}, os.ErrPermission
			case "/tmp":
				panic("planted")
			}
			return filesystem{path: path, exists: true, writable: true, statfs: unix.Statfs_t{Blocks: 100, Bavail: 50, Frsize: 4096, Files: 10, Ffree: 7}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []facts.Place{
			{FSType: "lustre", Source: "mds@o2ib:/scratch", Mount: "/scratch", NoExec: true, ReadOnly: true, Exists: true, Writable: true, Total: 409600, Free: 204800, FreeInodes: 7},
			{FSType: "nfs4", Source: "filer:/export/home", Mount: "/home", Problem: "no answer within 2s: a hung mount?"},
			{FSType: "xfs", Source: "/dev/sda1", Mount: "/", Problem: "the collector crashed at places_linux_test.go:37, which is a bug in preflight: planted"},
			{FSType: "nfs4", Source: "filer:/export/home", Mount: "/home", Problem: "permission denied"},
			{FSType: "nfs4", Source: "filer:/export/home", Mount: "/home", Exists: true, Writable: true, Total: 409600, Free: 204800, FreeInodes: 7},
		}
		for i := range want {
			want[i].Path = places[i].Path
		}
		if diff := cmp.Diff(want, places); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func plant(t *testing.T, o Options, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(o.At(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.At(path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStand(t *testing.T) {
	o := Options{Root: t.TempDir()}
	plant(t, o, "/data/file", "x")
	for link, target := range map[string]string{"/link": "data", "/dangling": "gone"} {
		if err := os.Symlink(target, o.At(link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]filesystem{
		"/data":              {path: "/data", exists: true, writable: true},
		"/link":              {path: "/data", exists: true, writable: true},
		"/link/not/there":    {path: "/data", writable: true},
		"/":                  {path: "/", exists: true, writable: true},
		"/data/file/is/none": {path: "/data", inTheWay: "/data/file"}, // nothing can be created below a file
		"/data/file":         {path: "/data", inTheWay: "/data/file"},
		"/dangling/x":        {path: "/", inTheWay: "/dangling"}, // nothing can be created below a dangling link
	} {
		got, err := filesystemOf(o, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if got.statfs.Blocks == 0 {
			t.Errorf("%s: the file system has no blocks", path)
		}
		if (got.owner != nil) != want.exists || got.owner != nil && *got.owner != os.Getuid() {
			t.Errorf("%s: owner %v", path, got.owner)
		}
		got.statfs, got.owner = unix.Statfs_t{}, nil
		if got != want {
			t.Errorf("%s stands on %+v, want %+v", path, got, want)
		}
	}
}

func TestNearestTellsWhatItMayNotSee(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if got, _, err := nearestExisting(loop + "/x"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("nearest is %q, error %v, want the loop to be told", got, err)
	}
}

func TestSizes(t *testing.T) {
	const most = 1<<63 - 1
	for name, test := range map[string]struct {
		statfs              unix.Statfs_t
		total, free, inodes int64
	}{
		"ext4":                {unix.Statfs_t{Blocks: 10, Bavail: 4, Bfree: 5, Bsize: 4096, Frsize: 4096, Files: 9, Ffree: 3}, 40960, 16384, 3},
		"units of its own":    {unix.Statfs_t{Blocks: 10, Bavail: 4, Bsize: 1 << 20, Frsize: 512, Files: 9}, 5120, 2048, 0},
		"no fragment size":    {unix.Statfs_t{Blocks: 10, Bavail: 4, Bsize: 1024, Files: 9}, 10240, 4096, 0},
		"inodes not counted":  {unix.Statfs_t{Blocks: 10, Bavail: 4, Frsize: 1}, 10, 4, most},
		"more than int64 has": {unix.Statfs_t{Blocks: 1 << 63, Bavail: 1 << 63, Frsize: 1, Files: 1, Ffree: 1 << 63}, most, most, most},
	} {
		total, free, inodes := Sizes(&test.statfs)
		if total != test.total || free != test.free || inodes != test.inodes {
			t.Errorf("%s: %d, %d, %d, want %d, %d, %d", name, total, free, inodes, test.total, test.free, test.inodes)
		}
	}
}
