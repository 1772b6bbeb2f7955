// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNear(t *testing.T) {
	names := []string{"w1", "w2", "w3", "login", "gpu1", "gpu2"}
	for name, want := range map[string]string{"w22": "w2", "lgoin": "login", "gpu9": "", "w4": "", "node7": "", "": "", "x": ""} {
		if got := Near(name, names); got != want {
			t.Errorf("Near(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestMisspeltHostfile checks that the error for a missing hostfile names the file with a near name
// in the same directory.
func TestMisspeltHostfile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hostfile"), []byte("w1 slots=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"hostfiel": `: did you mean "` + filepath.Join(dir, "hostfile") + `"?`, "nodes": ": check the path"} {
		_, _, err := ReadFile(filepath.Join(dir, name), "")
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
