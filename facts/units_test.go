// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"strings"
	"testing"
)

// TestUnits checks that the tree has every unit, and that each unit is the same as [Unit] returns.
func TestUnits(t *testing.T) {
	tree := Units()
	at := func(path string) any {
		var place any = tree
		for key := range strings.SplitSeq(path, ".") {
			below, _ := place.(map[string]any)
			place = below[key]
		}
		return place
	}
	for path, want := range map[string]any{
		"memory.available":           "bytes", // this fact has a unit although it is never compared
		"nvml.cards.*.power.limit":   "W",
		"nvml.cards.*.clock.sm":      "MHz",
		"net.interfaces.*.speed":     "bit/s",
		"limits.core.hard":           "bytes",
		"limits.nofile.soft":         nil,
		"mesh.reached.*":             "s",
		"mesh.failed.*.seconds":      "s",
		"mesh.failed.*.error":        nil,
		"rendezvous.next.joined":     "s",
		"rendezvous.next.next":       nil,
		"launcher.pdsh":              nil,
		"nvml.cards.*.nvlinks.speed": "bit/s",
	} {
		if got := at(path); got != want {
			t.Errorf("%s is counted in %v, want %v", path, got, want)
		}
	}
	for _, d := range Described() {
		if got, _ := at(d.Path).(string); got != d.Unit && d.Kind == Number {
			t.Errorf("%s is counted in %q, and in the tree in %q", d.Path, d.Unit, got)
		}
	}
}
