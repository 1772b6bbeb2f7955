// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 255, 256, 257, 5000} {
		want := strings.Repeat("x", size)
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFile(path); err != nil || string(got) != want {
			t.Errorf("of %d bytes it reads %d: %v", size, len(got), err)
		}
	}
	if _, err := ReadFile(path + "-not"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there it says %v", err)
	}
	if _, err := ReadFile(filepath.Dir(path)); err == nil {
		t.Error("it reads a directory")
	}
}
