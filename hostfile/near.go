// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"os"
	"path/filepath"
	"slices"

	"preflight/internal/text"
)

// Near returns the one name that the user likely meant with a misspelt name. It returns "" if no
// name is near, or if several names are equally near: gpu9 may be any of gpu1 to gpu8.
func Near(name string, names []string) string {
	for apart := 1; apart <= min(max(2, len(name)/4), len(name)-1); apart++ {
		near := text.Nearest(name, names, apart)
		if near == "" {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == near })
		if text.Nearest(name, others, apart) == "" {
			return near
		}
		return ""
	}
	return ""
}

// nearFile returns the path of the one file with a near name in the same directory, "" if there is
// none or more than one.
func nearFile(path string) string {
	entries, _ := os.ReadDir(filepath.Dir(path)) // a missing directory has no files
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	if near := Near(filepath.Base(path), names); near != "" {
		return filepath.Join(filepath.Dir(path), near)
	}
	return ""
}
