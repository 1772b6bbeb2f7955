package probe

import (
	"path/filepath"
	"strings"
)

// candidate is a file that may be the library that is asked for, and what leads
// the loader to it.
type candidate struct{ path, from string }

// loaderOrder lists where the loader looks for a library that a program asks for by
// name alone, best first and by the machine's paths, whether or not it is there.
// What the program itself brings along (DT_RPATH, DT_RUNPATH) is the caller's to know.
func loaderOrder(o options, libraryPath, name string) []candidate {
	return append(libraryPathOrder(libraryPath, o.WorkDir, name), systemOrder(o.at, name)...)
}

// libraryPathOrder is where LD_LIBRARY_PATH leads, whose entries ld.so(8) splits
// at colons and semicolons. An empty one means the working directory.
func libraryPathOrder(libraryPath, workDir, name string) []candidate {
	if libraryPath == "" {
		return nil
	}
	var all []candidate
	for dir := range strings.SplitSeq(strings.ReplaceAll(libraryPath, ";", ":"), ":") {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(workDir, dir)
		}
		all = append(all, candidate{filepath.Join(dir, name), "LD_LIBRARY_PATH"})
	}
	return all
}

// systemOrder is what comes last: the loader's cache, then the directories that
// are built into it.
func systemOrder(at func(path string) string, name string) []candidate {
	var all []candidate
	for _, path := range readLoaderCache(at("/etc/ld.so.cache"), name) {
		all = append(all, candidate{path, "ld.so.cache"})
	}
	for _, dir := range defaultLibraryDirs {
		all = append(all, candidate{filepath.Join(dir, name), "default"})
	}
	return all
}
