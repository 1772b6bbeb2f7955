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

// Limits on what one private directory may hold. It may hold builds of several versions and
// architectures that share a home directory, and files of deliveries in progress.
const (
	keptBuilds = 4
	keptParts  = time.Hour // longer than any delivery takes
)

// The names of our files in a private directory.
var (
	buildName = lazyregexp.New(`^preflight-[0-9a-f]{64}$`)
	partName  = lazyregexp.New(`^preflight-([0-9a-f]{64}|try)\.[0-9a-f]+$`)
)

// image is the descriptor through which deliver.sh starts an agent.
const image = 9

// Arrive must be an agent's first call. It undoes two effects of deliver.sh on the process: an open
// descriptor, which children would inherit, and that descriptor's number as the process name.
func Arrive() {
	syscall.CloseOnExec(image)
	_ = os.WriteFile("/proc/self/comm", []byte("preflight"), 0)
}

// Install is the node's side of a delivery. The running executable was unpacked into dir under a
// temporary name. Install verifies that it is the file that the launching machine sent, and renames
// it to dir/preflight-HASH. The rename is atomic, so that nodes which share a home directory see
// the whole file or none. Install then removes all but a few older builds from dir.
//
// hash is the SHA-256 in hex. If Install returns an error, dir is unchanged except for the
// temporary file, which its creator must remove. The temporary file may be gone already, for
// example because preflight clean ran at the same time. Install then does nothing and returns no
// error, because an open file runs without a name.
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
	// Without Sync, a power failure could leave an empty file with this name.
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

// prune removes all builds except keep and the newest few from dir, and the remains of interrupted
// deliveries. It ignores files that it cannot remove, because old builds must not make a new
// delivery fail. The next delivery tries again.
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
