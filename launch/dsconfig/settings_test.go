// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"cmp"
	"slices"
	"testing"

	"github.com/hashicorp/go-version"

	"preflight/hostfile"
)

// TestTables checks deepspeed.yaml as a whole. Every row has a name, releases are valid and in
// order, and no release has a setting twice.
func TestTables(t *testing.T) {
	checkRows(t, "", tables().Settings)
	for _, gone := range tables().Removed {
		checkReleases(t, gone.Name, gone.Since)
		settings := tables().Settings
		if gone.Section != "" {
			settings = sectionNamed(gone.Section).Settings
		}
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.Name == gone.Name && s.Until == gone.Since }) || gone.Says == "" {
			t.Errorf("%s: no setting went with %s, or nothing says how it is refused", gone.Name, gone.Since)
		}
	}
	for _, o := range tables().Optimizers {
		checkReleases(t, o.Name, o.Since, o.Zero, o.Until)
		if o.Name == "" || o.Refuses != "" && o.Zero != "" {
			t.Errorf("%+v has no name, or ZeRO takes and refuses it", o)
		}
	}
	if len(tables().TorchOptimizers) == 0 {
		t.Error("there are no optimizers of torch")
	}
}

// oldest is the first release in the tables.
const oldest = "0.7.0"

func checkRows(t *testing.T, at string, settings []setting) {
	t.Helper()
	if len(settings) == 0 {
		t.Errorf("%s: the section has no settings", at)
	}
	for i, s := range settings {
		name := at + s.Name
		checkReleases(t, name, s.Since, s.Until)
		if s.Name == "" || s.Is != nil && s.Holds != nil {
			t.Errorf("%s: the row has no name, or is a value and a section", name)
		}
		for _, other := range settings[:i] {
			first, second := cmp.Or(s.Since, oldest), cmp.Or(other.Since, oldest)
			if other.Name == s.Name && (hostfile.Within(first, second, other.Until) || hostfile.Within(second, first, s.Until)) {
				t.Errorf("%s: two rows are of one release", name)
			}
		}
		if s.Holds != nil {
			checkRows(t, name+".", s.Holds.Settings)
		}
	}
}

// checkReleases reports invalid releases and releases out of order. It skips "".
func checkReleases(t *testing.T, name string, releases ...string) {
	t.Helper()
	before := ""
	for _, release := range releases {
		if release == "" {
			continue
		}
		if _, err := version.NewVersion(release); err != nil || before != "" && hostfile.Before(release, before) {
			t.Errorf("%s: release %q (%v) behind %q", name, release, err, before)
		}
		before = release
	}
}
