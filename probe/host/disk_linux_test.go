package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/fixture"
	"preflight/probe/machine"
)

func TestPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		workDir string
		env     map[string]string
		want    map[string]string
	}{
		"nothing set": {"/srv", nil, map[string]string{
			"workdir": "/srv", "tmp": "/tmp", "home": "/home/ml", "hf-cache": "/home/ml/.cache/huggingface",
			"triton-cache": "/home/ml/.triton", "torch-extensions": "/home/ml/.cache/torch_extensions",
		}},
		"all set": {"", map[string]string{
			"HOME": "/nfs/ml", "TMPDIR": "/local/tmp/", "HF_HUB_CACHE": "/hub", "HF_HOME": "/hf", "TRITON_CACHE_DIR": "/triton", "TORCH_EXTENSIONS_DIR": "/ext",
		}, map[string]string{
			"tmp": "/local/tmp", "home": "/nfs/ml", "hf-cache": "/hub", "triton-cache": "/triton", "torch-extensions": "/ext",
		}},
		"one level up": {"relative", map[string]string{"XDG_CACHE_HOME": "/cache", "HF_HOME": "~/hf", "TRITON_HOME": "/scratch"}, map[string]string{
			"tmp": "/tmp", "home": "/home/ml", "hf-cache": "/home/ml/hf", "triton-cache": "/scratch/.triton", "torch-extensions": "/cache/torch_extensions",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, place := range places(machine.Options{WorkDir: test.workDir}, "/home/ml", func(name string) string { return test.env[name] }) {
				got[place.Role] = place.Path
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// clearPlaces makes the places depend on nothing but the home directory.
func clearPlaces(t *testing.T, home string) {
	for _, name := range []string{"TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "TRITON_HOME", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
}

func TestHungMountCostsOnlyItsPlaces(t *testing.T) {
	o := fixture.Machine(t, "host-metal-cgroup1")
	o.WorkDir = "/scratch fast/job"
	clearPlaces(t, "/home/ml")
	t.Setenv("TORCH_EXTENSIONS_DIR", "/home/locked")
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		defer close(release)
		got, err := disk(t.Context(), o, func(_ machine.Options, path string) (filesystem, error) {
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
		nfs := facts.Place{FSType: "nfs4", Source: "filer:/export/home", Exists: true, Writable: true, Total: 409600, Free: 204800, FreeInodes: 7}
		want := map[string]facts.Place{
			"workdir": {FSType: "lustre", Source: "mds@o2ib:/scratch", NoExec: true, ReadOnly: true, Exists: true, Writable: true, Total: 409600, Free: 204800, FreeInodes: 7},
			"home":    {FSType: "nfs4", Source: "filer:/export/home", Problem: "no answer within 2s: a hung mount?"},
			"tmp": {FSType: "xfs", Source: "/dev/mapper/rhel-root",
				Problem: "the collector crashed at disk_linux_test.go:73, which is a bug in preflight: planted"},
			"hf-cache":         nfs,
			"triton-cache":     nfs,
			"torch-extensions": {FSType: "nfs4", Source: "filer:/export/home", Problem: "permission denied"},
		}
		for _, place := range got.Places {
			expected := want[place.Role]
			expected.Role, expected.Path = place.Role, place.Path
			if diff := cmp.Diff(expected, place); diff != "" {
				t.Errorf("%s (-want +got):\n%s", place.Role, diff)
			}
		}
		if len(got.Places) != len(want) {
			t.Errorf("%d places, want %d", len(got.Places), len(want))
		}
	})
}

func TestStand(t *testing.T) {
	root := t.TempDir()
	o := fixture.Write(t, machine.Options{Root: root}, map[string]string{"/data/file": "x"})
	if err := os.Symlink("data", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]filesystem{
		"/data":              {path: "/data", exists: true, writable: true},
		"/link":              {path: "/data", exists: true, writable: true},
		"/link/not/there":    {path: "/data", writable: true},
		"/":                  {path: "/", exists: true, writable: true},
		"/data/file/is/none": {path: "/data/file"}, // nothing can be made below a file
	} {
		got, err := filesystemOf(o, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if got.statfs.Blocks == 0 {
			t.Errorf("%s: the file system has no blocks", path)
		}
		got.statfs = unix.Statfs_t{}
		if path == "/data/file/is/none" && os.Geteuid() == 0 {
			got.writable = false // root's access to a file says nothing of what this asks
		}
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
	if got, err := nearestExisting(loop + "/x"); !errors.Is(err, unix.ELOOP) {
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
		total, free, inodes := sizes(&test.statfs)
		if total != test.total || free != test.free || inodes != test.inodes {
			t.Errorf("%s: %d, %d, %d, want %d, %d, %d", name, total, free, inodes, test.total, test.free, test.inodes)
		}
	}
}

// Where ZeRO offloads to is a place as well, looked for as DeepSpeed does: no
// "~" is expanded.
func TestOffloadPlaces(t *testing.T) {
	o := machine.Options{WorkDir: "/srv", Offload: map[string]string{"offload-param": "~/nvme", "offload-optimizer": "/nvme/"}}
	var got []facts.Place
	for _, place := range places(o, "/home/ml", func(string) string { return "" }) {
		if strings.HasPrefix(place.Role, "offload") {
			got = append(got, place)
		}
	}
	want := []facts.Place{{Role: "offload-optimizer", Path: "/nvme"}, {Role: "offload-param", Path: "/srv/~/nvme"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartsFitInsideTheirSections(t *testing.T) {
	if placeLimit+machine.LastWords >= DiskLimit {
		t.Errorf("one hung place (%s) costs the whole disk section (%s)", placeLimit, DiskLimit)
	}
	if scanLimit >= SHMLimit {
		t.Errorf("the scan for users (%s) costs the whole shm section (%s)", scanLimit, SHMLimit)
	}
}
