// SPDX-License-Identifier: Apache-2.0

package python

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"

	"preflight/probe/machine"
)

// mostElsewhere is how many other interpreters a node reports.
const mostElsewhere = 8

// environments returns patterns for the directories in which people keep virtual environments and
// conda environments: in the launch's directory, in the home directory and in /opt.
func environments(workDir, home string) (patterns []string) {
	for _, dir := range []string{workDir, home} {
		if path.IsAbs(dir) {
			patterns = append(patterns, dir+"/.venv*", dir+"/*venv*", dir+"/env", dir+"/.env")
		}
	}
	roots := []string{"/opt", "/usr/local"}
	if path.IsAbs(home) {
		patterns = append(patterns, home+"/.venvs/*", home+"/.virtualenvs/*", home+"/.conda/envs/*")
		roots = append(roots, home)
	}
	for _, root := range roots {
		for _, conda := range []string{"*conda*", "*forge*", "*mamba*"} {
			patterns = append(patterns, root+"/"+conda, root+"/"+conda+"/envs/*")
		}
	}
	return append(patterns, "/opt/*", "/opt/*/*env*", "/usr/local")
}

// elsewhere returns the interpreters, sorted and without asked, whose environment has torch's
// files. It starts none of them. If the node is slow, the list may be incomplete.
func elsewhere(ctx context.Context, o machine.Options, asked, workDir string) (found []string) {
	for _, pattern := range environments(workDir, machine.Session(o).Home) {
		if ctx.Err() != nil {
			break
		}
		torches, _ := filepath.Glob(o.At(pattern) + "/lib*/python3*/*-packages/torch/version.py") // a home with "[" in its path has no matches
		for _, torch := range torches {
			prefix := torch
			for range 5 { // lib, python3.11, site-packages, torch, version.py
				prefix = path.Dir(prefix)
			}
			for _, name := range []string{"python", "python3"} {
				interpreter := o.Without(prefix + "/bin/" + name)
				if info, err := os.Stat(prefix + "/bin/" + name); err != nil || info.Mode()&0o111 == 0 {
					continue
				}
				if interpreter != asked && !slices.Contains(found, interpreter) {
					found = append(found, interpreter)
				}
				break
			}
		}
	}
	slices.Sort(found)
	return found[:min(len(found), mostElsewhere)]
}
