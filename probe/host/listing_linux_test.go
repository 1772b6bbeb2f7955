// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"preflight/facts"
	"preflight/probe/machine"
)

// write creates a file of size bytes.
func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestListing compares two directories by content. Timestamps and deeper levels must not affect the
// result.
func TestListing(t *testing.T) {
	listingOf := func(dir string) string {
		places := []facts.Place{{Role: facts.RoleCheckpoint, Path: dir, Exists: true}, {Role: facts.RoleOutput, Path: dir, Exists: true}}
		list(t.Context(), machine.Options{}, places)
		if places[1].Listing != "" {
			t.Error("an output was listed")
		}
		return places[0].Listing
	}
	here, there := t.TempDir(), t.TempDir()
	for _, dir := range []string{here, there} {
		write(t, filepath.Join(dir, "latest"), 15)
		write(t, filepath.Join(dir, "global_step50/mp_rank_00_model_states.pt"), 100)
	}
	write(t, filepath.Join(there, "global_step50/below/x"), 1)
	if a, b := listingOf(here), listingOf(there); a == b {
		t.Error("a directory more is no difference")
	}
	write(t, filepath.Join(here, "global_step50/below/y"), 2)
	if a, b := listingOf(here), listingOf(there); a == "" || a != b {
		t.Errorf("%q and %q differ by what is too far down", a, b)
	}
	write(t, filepath.Join(here, "global_step50/mp_rank_00_model_states.pt"), 99)
	if a, b := listingOf(here), listingOf(there); a == b {
		t.Error("a file that is shorter is no difference")
	}
	for i := range listingEntries {
		write(t, filepath.Join(here, "global_step50", fmt.Sprint(i)), 0)
	}
	if got := listingOf(here); got != "" {
		t.Errorf("a directory of too much has the listing %s", got)
	}
	if empty := listingOf(t.TempDir()); empty == "" {
		t.Error("an empty directory has no listing, as if nobody had looked")
	}
}
