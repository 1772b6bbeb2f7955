// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"preflight/facts"
	"preflight/probe/machine"
)

// maxShadows limits the result. A directory of installed packages that is mistaken for sources
// would yield hundreds of shadows.
const maxShadows = 50

// finder is a directory as Python's FileFinder sees it.
type finder struct {
	dir, real string
	in        string
	entries   []string
	suffixes  []string // suffixes of modules, in search order
}

// suffixes returns the file name suffixes that CPython uses for an extension, a source and a legacy
// bytecode file (importlib/_bootstrap_external.py, _get_supported_file_loaders, 3.8 to 3.13).
func suffixes(version string) []string {
	tag := "cpython-" + strings.ReplaceAll(majorMinor(version), ".", "")
	return []string{"." + tag + "-x86_64-linux-gnu.so", "." + tag + "-aarch64-linux-gnu.so", ".abi3.so", ".so", ".py", ".pyc"}
}

// shadows returns the files that hide modules of the launch, in the order of Python's search. If
// several files hide one module, only the first counts. The script's directory comes first, or the
// working directory if a module is run. PYTHONPATH comes next.
func shadows(o machine.Options, s site, own ownModules, workDir string, python *facts.Python) []facts.Shadow {
	before := searchedFirst(o, workDir, python.Version)
	installed := sync.OnceValue(func() (all []finder) { // computed only once needed, because usually no file hides a module
		for _, dir := range s.dirs {
			f := newFinder(dir, "", python.Version)
			if !slices.ContainsFunc(before, func(b finder) bool { return b.real == f.real }) {
				all = append(all, f)
			}
		}
		return all
	})
	var found []facts.Shadow
	for _, b := range before {
		if slices.ContainsFunc(b.entries, func(entry string) bool { return strings.HasSuffix(entry, ".dist-info") }) {
			continue // packages are installed in this directory, each on purpose
		}
		for _, module := range o.Modules {
			isLoaded := b.in != facts.InPythonPath && slices.Contains(own.loaded, module)
			by := b.find(module)
			if by == "" || isLoaded || slices.Contains(own.builtin, module) || len(found) == maxShadows {
				continue
			}
			hidden := hiddenBy(by, module, installed(), s)
			if hidden == "" || sameText(by, hidden) {
				continue
			}
			found = append(found, facts.Shadow{Module: module, Path: by, In: b.in, Hides: hidden, Copy: isCopy(by, hidden)})
		}
	}
	return found
}

// searchedFirst returns the directories before Python's own library in sys.path, for the launcher's
// processes and for the ranks.
func searchedFirst(o machine.Options, workDir, version string) []finder {
	var all []finder
	add := func(dir, in string) {
		if f := newFinder(dir, in, version); f.entries != nil {
			all = append(all, f)
		}
	}
	if o.Getenv("PYTHONSAFEPATH") == "" || beforeSafePath(version) {
		if script := machine.ScriptDirectory(o); script != "" {
			add(script, facts.InScriptDir)
		}
		add(workDir, facts.InWorkDir)
	}
	if path := o.Getenv("PYTHONPATH"); path != "" {
		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(workDir, dir)
			}
			add(dir, facts.InPythonPath)
		}
	}
	return all
}

// beforeSafePath reports whether a Python is too old for PYTHONSAFEPATH. Releases up to 3.10 are.
func beforeSafePath(version string) bool {
	minor, found := strings.CutPrefix(majorMinor(version), "3.")
	return !found || len(minor) == 1 || minor == "10"
}

func newFinder(dir, in, version string) finder {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return finder{dir: dir, in: in}
	}
	return finder{dir: dir, real: real, in: in, entries: entriesOf(dir), suffixes: suffixes(version)}
}

// find returns the file that an import of a module uses from the directory, or "" if there is none.
// A package comes before a file. A directory without __init__ is used only if nothing else is found
// anywhere.
func (f finder) find(module string) string {
	if at, _ := slices.BinarySearch(f.entries, module); at == len(f.entries) || !strings.HasPrefix(f.entries[at], module) {
		return ""
	}
	has := func(entries []string, name string) bool {
		_, found := slices.BinarySearch(entries, name)
		return found
	}
	if has(f.entries, module) {
		inside := entriesOf(filepath.Join(f.dir, module))
		for _, suffix := range f.suffixes {
			if has(inside, "__init__"+suffix) {
				return filepath.Join(f.dir, module)
			}
		}
	}
	for _, suffix := range f.suffixes {
		if !has(f.entries, module+suffix) {
			continue
		}
		path := filepath.Join(f.dir, module+suffix)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// hiddenBy returns the file that an import would use otherwise. It returns "" if there is none, or
// if it is the same file.
func hiddenBy(by, module string, installed []finder, s site) string {
	for _, f := range installed {
		if hidden := f.find(module); hidden != "" {
			return unlessSame(by, hidden)
		}
	}
	return unlessSame(by, s.editable[module])
}

func unlessSame(by, hidden string) string {
	here, err := os.Stat(by)
	there, otherErr := os.Stat(hidden)
	if err != nil || otherErr != nil || os.SameFile(here, there) {
		return ""
	}
	return hidden
}

// sameText reports whether two sources have the same text, so that it does not matter which is
// used.
func sameText(a, b string) bool {
	if !strings.HasSuffix(a, ".py") || !strings.HasSuffix(b, ".py") {
		return false
	}
	here, err := os.Stat(a)
	there, otherErr := os.Stat(b)
	if err != nil || otherErr != nil || here.Size() != there.Size() || here.Size() > 1<<20 {
		return false
	}
	one, err := os.ReadFile(a)
	other, otherErr := os.ReadFile(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// isCopy reports whether a package contains most of the hidden package's files. In that case it is
// the user's own version of that package, and not another package of the same name.
func isCopy(by, hidden string) bool {
	here, there := entriesOf(by), entriesOf(hidden)
	both := 0
	for _, entry := range there {
		if _, found := slices.BinarySearch(here, entry); found {
			both++
		}
	}
	return len(there) > 0 && both > 0 && 2*both >= len(there)
}
