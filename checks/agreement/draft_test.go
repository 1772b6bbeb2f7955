// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"testing"

	"preflight/testhosts/fleettest"
)

// TestDraftedSizes checks that round sizes stay unchanged, and that sizes that follow the memory
// size get a margin.
func TestDraftedSizes(t *testing.T) {
	for bytes, want := range map[string]string{
		"549755813888": "512GiB", "67108864": "64MiB", "65536": "64KiB", "1000": "1000B", "12638253056": "11932MiB", "0": "0",
	} {
		if got := sizeToState(bytes); got != want {
			t.Errorf("%s is stated as %s, want %s", bytes, got, want)
		}
	}
	fleet := fleettest.Healthy(2)
	fleet.Nodes[1].SHM.Size -= 4096 * 100
	for i := range fleet.Nodes {
		fleet.Nodes[i].GPU.Module = "" // no driver is loaded, so the kind of the module is unknown
	}
	for _, d := range Drafts(fleet.Nodes) {
		if d.Fact == "gpu.open_module" {
			t.Errorf("%s is stated where there is no module", d.Fact)
		}
		if d.Fact == "shm.size" && (len(d.Groups) != 1 || d.Is != ">=519044MiB") {
			t.Errorf("%s in %d groups", d.Is, len(d.Groups))
		}
	}
}
