// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyAPolicyStatesCode checks that code that is not a constant of the program comes only from
// the user's own file.
func TestOnlyAPolicyStatesCode(t *testing.T) {
	met := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "fix.Stated(") {
				met++
				if !strings.HasSuffix(path, "checks/agreement/expectation.go") || !strings.Contains(line, "fix.Stated(s.Fix)") {
					t.Errorf("%s: %s", path, strings.TrimSpace(line))
				}
			}
		}
		return err
	})
	if err != nil || met != 1 {
		t.Errorf("%d places, %v", met, err)
	}
}
