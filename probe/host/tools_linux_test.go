// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"preflight/probe/machine"
)

func TestTools(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{"usr/sbin/ufw", "usr/bin/rsync", "usr/bin/other"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := tools(machine.Options{Root: root}); !slices.Equal(got, []string{"rsync", "ufw"}) {
		t.Errorf("got %q", got)
	}
}
