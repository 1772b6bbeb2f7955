// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"preflight/internal/lazyregexp"
)

// What one private directory may hold of ours: builds of several versions and
// machines that share a home, and what deliveries in progress have written.
const (
	keptBuilds = 4
	keptParts  = time.Hour // longer than any delivery takes
)

// The names we give files in a private directory.
var (
	buildName = lazyregexp.New(`^preflight-[0-9a-f]{64}$`)
	partName  = lazyregexp.New(`^preflight-([0-9a-f]{64}|try)\.[0-9a-f]+$`)
)

// image is the descriptor by which deliver.sh starts an agent.
const image = 9

// Arrive is for an agent to begin with. It takes back what deliver.sh has left in it,
// which its children and whoever lists processes would see: a descriptor, and its number
// for a name.
func Arrive() {
	syscall.CloseOnExec(image)
	_ = os.WriteFile("/proc/self/comm", []byte("preflight"), 0)
}

// Install is the node's side of a delivery. The running executable, unpacked
// into dir under a temporary name, proves that it is the file the head node
// meant and takes its place, dir/preflight-HASH. The rename is atomic, so a
// home shared by many nodes sees the whole file or none. Older builds of ours
// in dir are then reduced to a few.
//
// hash is the SHA-256 in hex. An error means that dir is as before but for the
// temporary file, which stays its maker's to remove. Where that has been removed
// already, as by preflight clean beside this run, there is nothing to
// install and nothing amiss: what is open runs without a name.
func Install(dir, hash string) error {
	name := "preflight-" + hash
	if !buildName.MatchString(name) {
		return fmt.Errorf("install: %q is not a SHA-256", hash)
	}
	f, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != hash {
		return fmt.Errorf("install: what arrived has SHA-256 %s, not %s", got, hash)
	}
	// A machine that loses power must not find an empty file of this name.
	if err := f.Sync(); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	temporary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	prune(dir, name, time.Now())
	return nil
}

// prune removes all builds but keep and the newest few from dir, and the remains
// of deliveries that were cut off. What cannot be removed is left to the next
// delivery: a full set of old builds is no reason to fail a new one.
func prune(dir, keep string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var builds []os.FileInfo
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue
		}
		switch {
		case info.Name() == keep:
		case buildName.MatchString(info.Name()):
			builds = append(builds, info)
		case partName.MatchString(info.Name()) && now.Sub(info.ModTime()) > keptParts:
			_ = os.Remove(filepath.Join(dir, info.Name()))
		}
	}
	slices.SortFunc(builds, func(a, b os.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, old := range builds[min(len(builds), keptBuilds-1):] {
		_ = os.Remove(filepath.Join(dir, old.Name()))
	}
}
