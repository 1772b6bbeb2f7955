// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"preflight/facts"
)

// TestShared lets two nodes try one directory, each its own, and one that does not exist yet.
func TestShared(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		name, first, second string // the directories of the two nodes
		want                string
	}{
		{"one directory", one, one, ""},
		{"each its own", one, other, facts.NotThere},
		{"a directory to come", filepath.Join(one, "a", "b"), filepath.Join(one, "a", "b"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, over := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			if err := os.WriteFile(nameOf(one, "t", "9", noteName), nil, 0o600); err != nil { // of a node that was lost
				t.Fatal(err)
			}
			var at []string
			for i, dir := range []string{c.first, c.second} {
				node := []string{"0", "1"}[i]
				ready := make(chan Written, 1)
				put := Put{Token: "t", Node: node, Peer: "9", Paths: []string{dir}}
				go func() {
					ended <- put.Hold(ctx, func(w Written) error { ready <- w; return nil })
				}()
				wrote := (<-ready).Directories[0]
				if wrote.Problem != "" || wrote.Failed != "" || len(wrote.Locks) > 0 {
					t.Fatalf("node %s: %+v", node, wrote)
				}
				at = append(at, wrote.At)
			}
			peer := Peer{Name: "w1", Node: "0", At: at[1], Patience: 100 * time.Millisecond, Locked: []string{facts.LockFlock, facts.LockFcntl}}
			found := Look{Token: "t", Node: "1", Dirs: []Peers{{At: at[1], Write: true, Of: []Peer{peer}}}}.Run(ctx).Directories[0]
			if found.Failed != "" || found.Peers[0].Missing != c.want {
				t.Errorf("%+v, want %q", found, c.want)
			}
			// Both nodes are this process. So only flock, whose locks belong to an open file, is held.
			if lock := found.Peers[0].Locks[facts.LockFlock]; c.want == "" && lock != facts.LockHeld {
				t.Errorf("flock is %q", lock)
			}
			over()
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			for _, dir := range []string{one, other} {
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("%v is left (%v)", left, err)
				}
			}
		})
	}
}

// TestSharedLate shows a file after a while, and then only a part of it.
func TestSharedLate(t *testing.T) {
	dir := t.TempDir()
	name := nameOf(dir, "t", "0", noteName)
	look := Look{Token: "t", Node: "1"}
	peer := Peer{Name: "w1", Node: "0", At: dir, Patience: 5 * time.Second}
	time.AfterFunc(400*time.Millisecond, func() {
		_ = os.WriteFile(name+"~", note("t", "0"), 0o600)
		_ = os.Rename(name+"~", name)
	})
	if found := look.find(t.Context(), peer); found.Missing != "" || found.Seconds < 0.2 || found.Seconds > 0.4 {
		t.Errorf("a late file: %+v", found)
	}
	if err := os.Truncate(name, 4096); err != nil {
		t.Fatal(err)
	}
	peer.Patience = 50 * time.Millisecond
	if found := look.find(t.Context(), peer); found.Missing != "4096 of 65536 bytes" || found.Seconds < 0.05 {
		t.Errorf("a part of a file: %+v", found)
	}
}
