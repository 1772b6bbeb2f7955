// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
)

// Candidate is a file that may be the requested library. From is the rule that leads the loader to
// the file.
type Candidate struct{ Path, From string }

// Present returns the candidates that are regular files. It returns each file once. at converts a
// path of the machine into a path that preflight can open.
func Present(candidates []Candidate, at func(path string) string) []Candidate {
	var seen []os.FileInfo
	return slices.DeleteFunc(candidates, func(c Candidate) bool {
		info, err := os.Stat(at(c.Path))
		same := func(other os.FileInfo) bool { return os.SameFile(info, other) }
		if err != nil || !info.Mode().IsRegular() || slices.ContainsFunc(seen, same) {
			return true
		}
		seen = append(seen, info)
		return false
	})
}

// LoaderOf returns the loader that an ELF program needs, or "" if it needs none.
func LoaderOf(path string) string {
	program, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer program.Close()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(part.Open(), 4096))
			if err != nil {
				return ""
			}
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// Linked is an object that a program loads, or the program itself.
type Linked struct {
	Program string // the program whose loader is used
	Object  string
	Dir     string             // the working directory of the loader
	Env     []string           // nil stands for this session's environment
	Needed  *lazyregexp.Regexp // names of libraries that the loader must find, nil for all
}

// loaderLimit is the time limit for the loader, which usually takes milliseconds.
const loaderLimit = 2 * time.Second

// Refused makes the loader resolve everything that an object is linked to, as ldd(1) does. It
// returns the loader's error about a library that is unusable or missing. It returns "" if the
// object loads, and if the program has no loader. It runs no code of the object.
func Refused(ctx context.Context, l Linked) string {
	loader := LoaderOf(l.Program)
	if loader == "" {
		return ""
	}
	list := hostsys.Child{Path: loader, Args: []string{"--list", l.Object}, Dir: l.Dir, Env: l.Env, Limit: loaderLimit}
	stdout, stderr, _ := list.Run(ctx) // the loader exits with 1 if it does not find a library
	return l.refusal(stdout, stderr)
}

var notFound = lazyregexp.New(`(?m)^\s*(\S+) => not found`)

func (l Linked) refusal(stdout, stderr string) string {
	for _, missing := range notFound.FindAllStringSubmatch(stdout, -1) {
		if l.Needed == nil || l.Needed.MatchString(missing[1]) {
			return missing[1] + ": not found"
		}
	}
	_, problem, _ := strings.Cut(stderr, "error while loading shared libraries: ")
	problem, _, _ = strings.Cut(problem, "\n")
	return problem
}

// LoaderOrder lists where the loader searches for a library that a program requests by name. The
// best candidate comes first. The result contains paths of the machine, whether they exist or not.
// The program's own paths (DT_RPATH, DT_RUNPATH) are not included.
func LoaderOrder(o Options, libraryPath, name string) []Candidate {
	return append(LibraryPathOrder(libraryPath, o.WorkDir, name), SystemOrder(o.At, name)...)
}

// LibraryPathOrder lists the candidates from LD_LIBRARY_PATH. ld.so(8) splits that variable at
// colons and semicolons, and an empty entry means the working directory.
func LibraryPathOrder(libraryPath, workDir, name string) []Candidate {
	if libraryPath == "" {
		return nil
	}
	var all []Candidate
	for dir := range strings.SplitSeq(strings.ReplaceAll(libraryPath, ";", ":"), ":") {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(workDir, dir)
		}
		all = append(all, Candidate{filepath.Join(dir, name), "LD_LIBRARY_PATH"})
	}
	return all
}

// SystemOrder lists the last candidates: those from the loader's cache, and then those from the
// loader's built-in directories.
func SystemOrder(at func(path string) string, name string) []Candidate {
	var all []Candidate
	for _, path := range ReadLoaderCache(at("/etc/ld.so.cache"), name) {
		all = append(all, Candidate{path, "ld.so.cache"})
	}
	for _, dir := range DefaultLibraryDirs {
		all = append(all, Candidate{filepath.Join(dir, name), "default"})
	}
	return all
}

// DefaultLibraryDirs lists the directories that glibc searches last: Debian's multiarch
// directories, then the common ones.
var DefaultLibraryDirs = func() []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "ppc64le": "powerpc64le-linux-gnu"}[runtime.GOARCH]
	return []string{"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
}()

// These constants describe the layout of /etc/ld.so.cache (glibc sysdeps/generic/dl-cache.h).
// struct cache_file_new is the magic, the number of entries and the rest of the header. struct
// file_entry_new is the flags, the offsets of name and path, and more. Older ldconfig writes the
// previous format in front of this format.
//
// The code decodes the layout by hand, because every probe of a node reads thousands of entries a
// few times.
const (
	loaderMagic  = "glibc-ld.so.cache1.1"
	loaderHeader = 48
	loaderEntry  = 24
)

// LoaderFlags marks the libraries of this architecture: ELF files for glibc, in the ABI of this
// program (sysdeps/generic/ldconfig.h).
var LoaderFlags = map[string]int32{"amd64": 0x0303, "arm64": 0x0a03, "ppc64le": 0x0503}[runtime.GOARCH]

// cachedLibrary is a library name and its path in the loader's cache.
type cachedLibrary struct{ Name, path string }

// ReadLoaderCache returns the paths that the loader's cache has for a library, in the cache's
// order.
func ReadLoaderCache(file, library string) []string {
	var paths []string
	for _, entry := range LoaderCacheEntries(file, func(name string) bool { return name == library }) {
		paths = append(paths, entry.path)
	}
	return paths
}

// LoaderCacheEntries returns the entries of the loader's cache whose names wanted accepts, in the
// cache's order. If the cache is missing or its format is unknown, it returns none.
func LoaderCacheEntries(file string, wanted func(name string) bool) []cachedLibrary {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	start := bytes.Index(data, []byte(loaderMagic))
	if start < 0 || len(data)-start < loaderHeader {
		return nil
	}
	data = data[start:] // offsets are relative to this position
	count := int(binary.NativeEndian.Uint32(data[len(loaderMagic):]))
	if count > (len(data)-loaderHeader)/loaderEntry {
		return nil
	}
	text := string(data)
	var found []cachedLibrary
	for entry := range slices.Chunk(data[loaderHeader:][:count*loaderEntry], loaderEntry) {
		flags := int32(binary.NativeEndian.Uint32(entry))
		if name := cString(text, binary.NativeEndian.Uint32(entry[4:])); flags == LoaderFlags && wanted(name) {
			found = append(found, cachedLibrary{name, cString(text, binary.NativeEndian.Uint32(entry[8:]))})
		}
	}
	return found
}

// cString returns the NUL-terminated text at an offset, or "" if the offset is outside the data.
func cString(data string, offset uint32) string {
	if int64(offset) >= int64(len(data)) {
		return ""
	}
	text, _, _ := strings.Cut(data[offset:], "\x00")
	return text
}
