// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
)

func TestFindCgroup(t *testing.T) {
	v1 := &procfs.MountInfo{FSType: "cgroup", Root: "/", MountPoint: "/sys/fs/cgroup/memory", SuperOptions: map[string]string{"rw": "", "memory": ""}}
	inDocker := &procfs.MountInfo{FSType: "cgroup", Root: "/docker/8a", MountPoint: "/sys/fs/cgroup/memory", SuperOptions: map[string]string{"memory": ""}}
	v2 := &procfs.MountInfo{FSType: "cgroup2", Root: "/", MountPoint: "/sys/fs/cgroup"}
	hybrid := &procfs.MountInfo{FSType: "cgroup2", Root: "/", MountPoint: "/sys/fs/cgroup/unified"}
	for name, test := range map[string]struct {
		groups string
		mounts []*procfs.MountInfo
		want   Cgroup
	}{
		"version 1":                {"4:memory:/a/b\n", []*procfs.MountInfo{v1}, Cgroup{Dir: "/sys/fs/cgroup/memory/a/b", Top: "/sys/fs/cgroup/memory"}},
		"among controllers":        {"nonsense\n1:name=systemd:/x\n4:cpu,memory:/a:b\n", []*procfs.MountInfo{v1}, Cgroup{Dir: "/sys/fs/cgroup/memory/a:b", Top: "/sys/fs/cgroup/memory"}},
		"version 1 in docker":      {"4:memory:/docker/8a/job\n", []*procfs.MountInfo{inDocker}, Cgroup{Dir: "/sys/fs/cgroup/memory/job", Top: "/sys/fs/cgroup/memory"}},
		"outside what is mounted":  {"4:memory:/docker/other\n", []*procfs.MountInfo{inDocker}, Cgroup{Dir: "/sys/fs/cgroup/memory", Top: "/sys/fs/cgroup/memory"}},
		"version 2":                {"0::/user.slice\n", []*procfs.MountInfo{v2}, Cgroup{Dir: "/sys/fs/cgroup/user.slice", Top: "/sys/fs/cgroup", V2: true}},
		"above a cgroup namespace": {"0::/../other\n", []*procfs.MountInfo{v2}, Cgroup{Dir: "/sys/fs/cgroup", Top: "/sys/fs/cgroup", V2: true}},
		"hybrid, in version 1":     {"4:memory:/a\n0::/b\n", []*procfs.MountInfo{hybrid, v1}, Cgroup{Dir: "/sys/fs/cgroup/memory/a", Top: "/sys/fs/cgroup/memory"}},
		"hybrid, in version 2":     {"4:pids:/a\n0::/b\n", []*procfs.MountInfo{hybrid, v1}, Cgroup{Dir: "/sys/fs/cgroup/unified/b", Top: "/sys/fs/cgroup/unified", V2: true}},
		"not mounted":              {"4:memory:/a\n0::/b\n", nil, Cgroup{}},
		"no cgroups":               {"", []*procfs.MountInfo{v1, v2}, Cgroup{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := findCgroup(test.groups, test.mounts, "memory")
			if got != test.want || found != (test.want != Cgroup{}) {
				t.Errorf("found %v %+v, want %+v", found, got, test.want)
			}
		})
	}
}

func TestUpwardEndsAtTheRoot(t *testing.T) {
	got := slices.Collect(Cgroup{Dir: "/a/b", Top: "/"}.Upward())
	if diff := cmp.Diff([]string{"/a/b", "/a", "/"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTightestIsTheSmallestOnTheWayUp(t *testing.T) {
	c := Cgroup{Dir: "/top/a/b", Top: "/top"}
	for name, test := range map[string]struct {
		limits map[string]int
		by     string
	}{
		"own":         {map[string]int{"/top/a/b": 1, "/top/a": 2, "/": 0}, "/top/a/b"},
		"an ancestor": {map[string]int{"/top/a/b": 3, "/top/a": 2, "/top": 5}, "/top/a"},
		"the top":     {map[string]int{"/top": 5}, "/top"},
		"none":        {map[string]int{"/": 1, "/top/a/b/c": 1, "/topper": 1}, ""},
	} {
		smallest, by, found := Tightest(c, func(dir string) (int, bool) { n, set := test.limits[dir]; return n, set })
		if by != test.by || smallest != test.limits[test.by] || found != (test.by != "") {
			t.Errorf("%s: %d by %q (%v), want %q", name, smallest, by, found, test.by)
		}
	}
}

func TestParseCPUMax(t *testing.T) {
	for text, want := range map[string]float64{
		"200000 100000": 2, "50000 100000": 0.5,
		"max 100000": 0, "-1 100000": 0, " ": 0, "": 0, "1": 0, "1 0": 0, "1 x": 0,
	} {
		if got, limited := parseCPUMax(text); got != want || limited != (want != 0) {
			t.Errorf("parseCPUMax(%q) = %v, %v, want %v", text, got, limited, want)
		}
	}
}

func TestMemoryUsedLeavesOutThePageCache(t *testing.T) {
	for stat, want := range map[string]int64{"anon 5\ninactive_file 42\ntotal_inactive_file x\n": 58, "anon 5\n": 100, "inactive_file 142\n": 0} {
		dir := t.TempDir()
		for name, text := range map[string]string{"memory.current": "100\n", "memory.stat": stat} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if used, known := (Cgroup{V2: true}).MemoryUsed(dir); used != want || !known {
			t.Errorf("with %q, %d are used, want %d", stat, used, want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	for name, test := range map[string]struct {
		v2    bool
		files map[string]string
		limit int64
		file  string // "" for no limit
	}{
		"version 1":               {false, map[string]string{"memory.limit_in_bytes": "200000000\n"}, 200000000, "memory.limit_in_bytes"},
		"version 1 without limit": {false, map[string]string{"memory.limit_in_bytes": "9223372036854771712\n"}, 0, ""},
		"the maximum":             {true, map[string]string{"memory.max": "200\n", "memory.high": "max\n"}, 200, "memory.max"},
		"throttled first":         {true, map[string]string{"memory.max": "200\n", "memory.high": "100\n"}, 100, "memory.high"},
		"throttled only":          {true, map[string]string{"memory.max": "max\n", "memory.high": "100\n"}, 100, "memory.high"},
		"never throttled":         {true, map[string]string{"memory.max": "200\n", "memory.high": "300\n"}, 200, "memory.max"},
		"no limit":                {true, map[string]string{"memory.max": "max\n", "memory.high": "max\n"}, 0, ""},
	} {
		dir := t.TempDir()
		for file, text := range test.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := Cgroup{Dir: dir, Top: dir, V2: test.v2}
		limit, by, limited := Tightest(c, c.MemoryLimit)
		if limited != (test.file != "") || limited && (limit != test.limit || c.MemoryFile(by) != filepath.Join(dir, test.file)) {
			t.Errorf("%s: limit %d of %q, %v", name, limit, c.MemoryFile(by), limited)
		}
	}
}
