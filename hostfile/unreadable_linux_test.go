// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestReadFileUnreadable: root can read every file, so the thread reads this file as the user
// nobody.
func TestReadFileUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hostfile")
	if err := os.WriteFile(path, []byte("w1 slots=2\n"), 0o000); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		const nobody = 65534
		for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setfsuid(0)
	}
	_, _, err := ReadFile(path, "")
	var line *LineError
	if !errors.As(err, &line) || !strings.HasPrefix(line.DeepSpeed, "PermissionError: [Errno 13]") || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, want a permission error", err)
	}
}
