// SPDX-License-Identifier: Apache-2.0

package facts

import "testing"

// TestNegativeSizes: a node that says so is not looked at for that section; limits may.
func TestNegativeSizes(t *testing.T) {
	used := int64(-1)
	n := Node{Facts: Facts{
		SHM: &SHM{Size: 1, Free: -1}, Memory: &Memory{Total: 1, CgroupUsed: &used}, Limits: &Limits{MemLock: Limit{Soft: -1, Hard: -1}},
		Disk: &Disk{Places: []Place{{Total: 1}, {Free: -4096}}}, Clock: &Clock{Offset: -1},
	}}
	n.Hold(Allowance(1))
	for section, want := range map[Section]string{SectionSHM: "shm.free", SectionMemory: "memory.cgroup_used", SectionDisk: "disk.places.1.free", SectionLimits: "", SectionClock: ""} {
		if want != "" {
			want = "left out: " + want + " is a negative size: no machine has that, so look there by hand"
		}
		if got := n.Missing[section]; got != want || n.Has(section) != (want == "") {
			t.Errorf("%s is missing by %q, want %q", section, got, want)
		}
	}
}
