package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// defaultLibraryDirs are where glibc looks last: the multiarch directories of
// Debian, then those of everybody.
var defaultLibraryDirs = func() []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "ppc64le": "powerpc64le-linux-gnu"}[runtime.GOARCH]
	return []string{"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
}()

// torchLinks is how torch's CUDA library finds NCCL.
type torchLinks struct {
	path      string // "" when this torch has no CUDA library
	needsNCCL bool   // false: NCCL is linked into it, or it has none
	// rpath and runpath are directories with $ORIGIN replaced. An object has
	// one or the other: glibc ignores DT_RPATH beside a DT_RUNPATH.
	rpath, runpath []string
}

// readTorchLinks reads the dynamic section of libtorch_cuda.so, or of the parts
// it was split into by torch 1.10 to 1.12.
func readTorchLinks(torchDir string) torchLinks {
	if torchDir == "" {
		return torchLinks{}
	}
	lib := filepath.Join(torchDir, "lib")
	for _, name := range []string{"libtorch_cuda_cpp.so", "libtorch_cuda.so"} {
		path := filepath.Join(lib, name)
		object, err := elf.Open(path)
		if err != nil {
			continue
		}
		defer object.Close()
		needed, _ := object.ImportedLibraries() // an object without a dynamic section needs nothing
		links := torchLinks{path: path, needsNCCL: slices.Contains(needed, ncclName)}
		links.runpath = searchPath(object, elf.DT_RUNPATH, lib)
		if links.runpath == nil {
			links.rpath = searchPath(object, elf.DT_RPATH, lib)
		}
		return links
	}
	return torchLinks{}
}

func searchPath(object *elf.File, tag elf.DynTag, origin string) []string {
	values, _ := object.DynString(tag)
	var dirs []string
	for _, value := range values {
		for dir := range strings.SplitSeq(value, ":") {
			dir = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}

// loaderCache is the header of /etc/ld.so.cache (glibc sysdeps/generic/
// dl-cache.h, struct cache_file_new). String offsets count from its start.
type loaderCache struct {
	Magic   [20]byte // "glibc-ld.so.cache1.1"
	Count   uint32
	Strings uint32
	Flags   uint32
	_       [4]uint32
}

// loaderEntry is one library of the cache (struct file_entry_new).
type loaderEntry struct {
	Flags      int32
	Name, Path uint32
	_          uint32
	Hardware   uint64
}

// loaderFlags marks the libraries of this architecture: ELF for glibc, in the
// ABI this program was built for (sysdeps/generic/ldconfig.h).
var loaderFlags = map[string]int32{"amd64": 0x0303, "arm64": 0x0a03, "ppc64le": 0x0503}[runtime.GOARCH]

// cachedLibrary is a name that programs ask for and the path that the loader's cache
// has for it.
type cachedLibrary struct{ name, path string }

// readLoaderCache returns the paths the loader's cache gives for a library, in
// its order.
func readLoaderCache(file, library string) []string {
	var paths []string
	for _, entry := range loaderCacheEntries(file, func(name string) bool { return name == library }) {
		paths = append(paths, entry.path)
	}
	return paths
}

// loaderCacheEntries are those of the loader's cache whose names are wanted, in its
// order. No cache, or one of an unknown format, gives none.
func loaderCacheEntries(file string, wanted func(name string) bool) []cachedLibrary {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	// Older ldconfig writes the previous format in front of this one.
	start := bytes.Index(data, []byte("glibc-ld.so.cache1.1"))
	if start < 0 {
		return nil
	}
	data = data[start:]
	reader := bytes.NewReader(data)
	var header loaderCache
	if binary.Read(reader, binary.NativeEndian, &header) != nil || int64(header.Count)*24 > int64(reader.Len()) {
		return nil
	}
	entries := make([]loaderEntry, header.Count)
	if binary.Read(reader, binary.NativeEndian, entries) != nil {
		return nil
	}
	var found []cachedLibrary
	for _, entry := range entries {
		if name := cString(data, entry.Name); entry.Flags == loaderFlags && wanted(name) {
			found = append(found, cachedLibrary{name, cString(data, entry.Path)})
		}
	}
	return found
}

// cString is the NUL-terminated text at an offset, "" outside the data.
func cString(data []byte, offset uint32) string {
	if int64(offset) >= int64(len(data)) {
		return ""
	}
	text, _, _ := bytes.Cut(data[offset:], []byte{0})
	return string(text)
}
