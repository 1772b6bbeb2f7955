// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch"
)

// TestSharedDirectories checks in which directories nodes look for each other's files.
func TestSharedDirectories(t *testing.T) {
	launched := func(role string) launch.Prediction {
		return launch.Prediction{Places: []facts.LaunchFile{{Path: "/out", Role: role}}}
	}
	models := launch.Prediction{Models: []facts.ModelNamed{{Name: "org/model"}}}
	on := func(fstype string, sources ...string) func(i int) facts.Place {
		return func(i int) facts.Place {
			return facts.Place{Role: "hf-cache", Path: "/hf", FSType: fstype, Source: sources[i%len(sources)]}
		}
	}
	for _, c := range []struct {
		name   string
		launch launch.Prediction
		policy []string
		cache  func(i int) facts.Place
		want   []string
	}{
		{"nothing", launch.Prediction{}, nil, on("nfs4", "filer:/hf"), nil},
		{"of the policy", launch.Prediction{}, []string{"/data"}, on("ext4", "/dev/sda"), []string{"/data"}},
		{"checkpoints", launched(facts.RoleOutput), nil, on("ext4", "/dev/sda"), []string{"/out"}},
		{"indices", launched(facts.RoleIndexCache), nil, on("ext4", "/dev/sda"), []string{"/out"}},
		{"a checkpoint to read", launched(facts.RoleCheckpoint), nil, on("ext4", "/dev/sda"), nil},
		{"a cache on a share", models, nil, on("nfs4", "filer:/hf"), []string{"/hf"}},
		{"caches on own shares", models, nil, on("nfs4", "filer:/hf1", "filer:/hf2", "filer:/hf3"), nil},
		{"caches on own disks", models, nil, on("ext4", "/dev/sda"), nil},
	} {
		r := run{Job: Job{Prediction: c.launch, Shared: c.policy}, members: membersFor(3)}
		for i, m := range r.members {
			m.Disk = &facts.Disk{Places: []facts.Place{c.cache(i)}}
		}
		if diff := cmp.Diff(c.want, slices.Sorted(maps.Keys(r.sharedDirectories()))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestPeersIn checks that every node's file is looked for, and that no node looks for its own.
func TestPeersIn(t *testing.T) {
	for n, want := range map[int]int{2: 1, 8: 7, 9: lookedFor, 100: lookedFor} {
		all, looks := membersFor(n), map[string]int{}
		for _, m := range all {
			for _, peer := range peersIn(all, m) {
				if looks[peer.Name]++; peer == m {
					t.Errorf("of %d: %s looks for its own file", n, m.Name)
				}
			}
		}
		for _, m := range all {
			if looks[m.Name] != want {
				t.Errorf("of %d: %d nodes look for the file of %s, want %d", n, looks[m.Name], m.Name, want)
			}
		}
	}
}
