// SPDX-License-Identifier: Apache-2.0

package host

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestLimitTurnsInfinityIntoMinusOne(t *testing.T) {
	for _, test := range []struct {
		soft, hard uint64
		want       facts.Limit
	}{
		{1024, 1048576, facts.Limit{Soft: 1024, Hard: 1048576}},
		{0, unix.RLIM_INFINITY, facts.Limit{Soft: 0, Hard: -1}},
		{math.MaxInt64, math.MaxInt64 + 1, facts.Limit{Soft: math.MaxInt64, Hard: -1}},
	} {
		if got := limit(test.soft, test.hard); got != test.want {
			t.Errorf("limit(%d, %d) = %+v, want %+v", test.soft, test.hard, got, test.want)
		}
	}
}

func TestLimitsAreThoseOfThisProcess(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &before); err != nil {
		t.Fatal(err)
	}
	lower := unix.Rlimit{Cur: min(4096, before.Max), Max: before.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &lower, nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Prlimit(0, unix.RLIMIT_CORE, &before, nil)
	got, err := CollectLimits(t.Context(), probetest.Machine(t, "host-docker-cgroup2"))
	if err != nil {
		t.Fatal(err)
	}
	if want := limit(lower.Cur, lower.Max); got.Core != want {
		t.Errorf("core is %+v, want %+v", got.Core, want)
	}
	if got.FileMax != math.MaxInt64 {
		t.Errorf("file-max is %d", got.FileMax)
	}
}

// TestWhoLocksFreely uses the numbers of five processes: root, a user, root in docker, a user in
// docker with --cap-add=IPC_LOCK, and root in rootless podman. The capabilities of the last one
// belong to its own namespace.
func TestWhoLocksFreely(t *testing.T) {
	const all, every = "         0          0 4294967295\n", "000001ffffffffff"
	for name, test := range map[string]struct {
		effective, users string
		want             *bool
	}{
		"root": {every, all, new(true)}, "a user": {"0000000000000000", all, new(false)},
		"docker": {"00000000a80425fb", all, new(false)}, "docker with IPC_LOCK": {"00000000a80465fb", all, new(true)},
		"podman": {every, "         0       1000          1\n", new(false)}, "no such namespaces": {every, "", new(true)},
		"not a number": {"all", all, nil}, "not told": {"", all, nil},
	} {
		files := map[string]string{"proc/self/status": "Name:\tagent\n"}
		if test.effective != "" {
			files["proc/self/status"] += "CapPrm:\t0000000000000000\nCapEff:\t" + test.effective + "\n"
		}
		if test.users != "" {
			files["proc/self/uid_map"] = test.users
		}
		if diff := cmp.Diff(test.want, locksFreely(probetest.Write(t, machine.Options{}, files))); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

func TestPIDsLimit(t *testing.T) {
	for name, want := range map[string]int64{"host-metal-cgroup1": 10813, "host-docker-cgroup2": 4096} {
		got, err := CollectLimits(t.Context(), probetest.Machine(t, name))
		if err != nil || got.PIDsMax == nil || *got.PIDsMax != want {
			t.Errorf("%s: limits %+v, error %v, want %d processes", name, got, err, want)
		}
	}
}

func TestLimitsWithoutProcAreNotLookedAt(t *testing.T) {
	if got, err := CollectLimits(t.Context(), machine.Options{Root: t.TempDir()}); err == nil {
		t.Errorf("an empty machine is told as %+v", got)
	}
}

func TestMemory(t *testing.T) {
	for name, want := range map[string]*facts.Memory{
		"host-metal-cgroup1": {
			Total: 527640568 << 10, Available: 500000000 << 10, SwapTotal: 4194300 << 10,
			CgroupLimit: new(int64(64 << 30)), CgroupUsed: new(int64(10000000000)), CgroupFile: "/sys/fs/cgroup/memory/user.slice/memory.limit_in_bytes", // values of the slice, without the page cache
			HugePages: 2 << 30, THP: "always", Overcommit: 2,
		},
		"host-docker-cgroup2": {
			Total: 502000000 << 10, Available: 400000000 << 10,
			CgroupLimit: new(int64(8 << 30)), CgroupUsed: new(int64(3 << 30)), CgroupFile: "/sys/fs/cgroup/memory.max",
			HugePages: 16 << 30, // pages that do not have the default size
		},
	} {
		got, err := CollectMemory(t.Context(), probetest.Machine(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v; (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNoLimitOfVersionOneIsNoLimit(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/g/memory.limit_in_bytes": "9223372036854771712\n", "/h/memory.limit_in_bytes": "4096\n"})
	for dir, want := range map[string]bool{"/g": false, "/h": true, "/none": false} {
		if limit, limited := (machine.Cgroup{}).MemoryLimit(o.At(dir)); limited != want {
			t.Errorf("%s: limited to %d: %v", dir, limit, limited)
		}
	}
}

func TestMemoryThatCannotBeReadIsMissingNotZero(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no /proc":          {"/etc/hostname": "w1"},
		"no MemAvailable":   {"/proc/meminfo": "MemTotal: 1 kB\n", "/proc/sys/vm/overcommit_memory": "0"},
		"no overcommit":     {"/proc/meminfo": "MemTotal: 1 kB\nMemAvailable: 1 kB\n"},
		"unreadable number": {"/proc/meminfo": "MemTotal: x kB\nMemAvailable: 1 kB\n", "/proc/sys/vm/overcommit_memory": "0"},
	} {
		if got, err := CollectMemory(t.Context(), probetest.Write(t, machine.Options{}, files)); err == nil {
			t.Errorf("%s: told as %+v", name, got)
		}
	}
}

func TestParseChoice(t *testing.T) {
	for text, want := range map[string]string{"always [madvise] never": "madvise", "[always] never": "always", "always": "", "[open": "", "": ""} {
		if got := parseChoice(text); got != want {
			t.Errorf("parseChoice(%q) = %q, want %q", text, got, want)
		}
	}
}
