// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sources are the endings of files that are programs, with what begins a comment there. A
// page of the HTML report carries its own scripts and styles, and the terms of the program
// beside it.
var sources = map[string]string{".go": "//", ".c": "//", ".h": "//", ".s": "//", ".sh": "#", ".py": "#"}

// TestEverySourceNamesItsLicence: as SPDX has it (spdx.dev, "Using SPDX license identifiers
// in source files"), so that a file that is copied alone is still known. The licence is that
// of LICENSE. Fixtures are others' words, and have none of ours.
func TestEverySourceNamesItsLicence(t *testing.T) {
	looked := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{"testdata", "bin", "dist", ".git"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		comment, is := sources[filepath.Ext(path)]
		if !is {
			return nil
		}
		looked++
		text, err := os.ReadFile(path)
		head := text[:min(len(text), 200)]
		if !bytes.Contains(head, []byte(comment+" SPDX-License-Identifier: Apache-2.0\n")) {
			t.Errorf("%s does not begin with %s SPDX-License-Identifier: Apache-2.0", path, comment)
		}
		return err
	})
	if err != nil || looked < 500 {
		t.Errorf("%d sources were looked at: %v", looked, err)
	}
}
