// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigurationOfOthers checks which owners and modes make a configuration file unsafe. Only
// root can give files away for the test.
func TestConfigurationOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		file, directory os.FileMode
		owner           int
		want            string
	}{
		"ours":                      {0o644, 0o755, os.Geteuid(), ""},
		"writable for all":          {0o666, 0o755, os.Geteuid(), "preflight.yaml is writable by everybody"},
		"a directory for all":       {0o644, 0o777, os.Geteuid(), " is writable by everybody"},
		"ours in a sticky one":      {0o644, 0o777 | os.ModeSticky, os.Geteuid(), ""},
		"another's in a sticky one": {0o644, 0o777 | os.ModeSticky, 4711, "belongs to user 4711"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.owner != os.Geteuid() && os.Geteuid() != 0 {
				t.Skip("NOT RUN: giving a file away takes root")
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "preflight.yaml")
			for _, err := range []error{os.WriteFile(file, nil, 0o600), os.Chmod(file, c.file), os.Chmod(dir, c.directory), os.Chown(file, c.owner, -1)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if err := refuseWritableByOthers(file); err != nil {
				got = err.Error()
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
