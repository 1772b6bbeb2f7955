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

// sources maps the endings of program files to what begins a comment there. A page of the HTML
// report is missing here: its scripts and styles fall under the terms of the program that writes
// it.
var sources = map[string]string{".go": "//", ".c": "//", ".h": "//", ".s": "//", ".sh": "#", ".py": "#"}

// TestEverySourceNamesItsLicence tests that every source file names its license as SPDX has it
// (spdx.dev, "Using SPDX license identifiers in source files"), so that a copied file keeps it. The
// license is that of LICENSE. Test fixtures come from others and have no such line.
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
