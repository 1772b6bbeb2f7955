// SPDX-License-Identifier: Apache-2.0

package python

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// TestElsewhere checks that only environments with torch and an interpreter are found, and not the
// interpreter that was asked for.
func TestElsewhere(t *testing.T) {
	root := probetest.Plant(t, `
-- etc/passwd --
root:x:0:0:root:/root:/bin/bash
-- opt/venv/lib/python3.11/site-packages/torch/version.py --
-- opt/other/lib/python3.11/site-packages/numpy/version.py --
-- opt/ruin/lib/python3.11/site-packages/torch/version.py --
-- root/miniconda3/envs/train/lib/python3.12/site-packages/torch/version.py --
-- srv/job/.venv/lib64/python3.11/site-packages/torch/version.py --
-- usr/local/lib/python3.11/dist-packages/torch/version.py --
`)
	for _, name := range []string{"opt/venv/bin/python", "opt/other/bin/python", "root/miniconda3/envs/train/bin/python3", "srv/job/.venv/bin/python", "usr/local/bin/python3"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := elsewhere(t.Context(), machine.Options{Root: root}, "/usr/local/bin/python3", "/srv/job")
	want := []string{"/opt/venv/bin/python", "/root/miniconda3/envs/train/bin/python3", "/srv/job/.venv/bin/python"}
	if os.Getuid() != 0 { // the home directory is another one
		want = append(want[:1], want[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("elsewhere (-want +got)\n%s", diff)
	}
}
