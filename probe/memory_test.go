package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestMemory(t *testing.T) {
	for name, want := range map[string]*facts.Memory{
		"host-metal-cgroup1": {
			Total: 527640568 << 10, Available: 500000000 << 10, SwapTotal: 4194300 << 10,
			CgroupLimit: new(int64(64 << 30)), CgroupUsed: new(int64(10000000000)), // the slice's, page cache taken off
			HugePages: 2 << 30, THP: "always", Overcommit: 2,
		},
		"host-docker-cgroup2": {
			Total: 502000000 << 10, Available: 400000000 << 10,
			CgroupLimit: new(int64(8 << 30)), CgroupUsed: new(int64(3 << 30)),
			HugePages: 16 << 30, // of another size than the default
		},
	} {
		got, err := collectMemory(t.Context(), fixture(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v; (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNoLimitOfVersionOneIsNoLimit(t *testing.T) {
	o := write(t, options{}, map[string]string{"/g/memory.limit_in_bytes": "9223372036854771712\n", "/h/memory.limit_in_bytes": "4096\n"})
	for dir, want := range map[string]bool{"/g": false, "/h": true, "/none": false} {
		if limit, limited := (cgroup{}).memoryLimit(o.at(dir)); limited != want {
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
		if got, err := collectMemory(t.Context(), write(t, options{}, files)); err == nil {
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
