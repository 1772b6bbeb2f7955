// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestTightestIsTheSmallestOnTheWayUp(t *testing.T) {
	c := cgroup{machine.Cgroup{Dir: "/top/a/b", Top: "/top"}}
	for name, test := range map[string]struct {
		limits map[string]int
		by     string
	}{
		"own":         {map[string]int{"/top/a/b": 1, "/top/a": 2, "/": 0}, "/top/a/b"},
		"an ancestor": {map[string]int{"/top/a/b": 3, "/top/a": 2, "/top": 5}, "/top/a"},
		"the top":     {map[string]int{"/top": 5}, "/top"},
		"none":        {map[string]int{"/": 1, "/top/a/b/c": 1, "/topper": 1}, ""},
	} {
		smallest, by, found := tightest(c, func(dir string) (int, bool) { n, set := test.limits[dir]; return n, set })
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
		o := probetest.Write(t, machine.Options{}, map[string]string{"/memory.current": "100\n", "/memory.stat": stat})
		if used, known := (cgroup{machine.Cgroup{V2: true}}).memoryUsed(o.Root); used != want || !known {
			t.Errorf("with %q, %d are used, want %d", stat, used, want)
		}
	}
}
