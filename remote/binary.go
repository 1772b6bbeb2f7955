package remote

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Binary is a preflight executable that nodes can be sent.
type Binary struct {
	Hash    string // SHA-256 of the file in hex: its name on the nodes
	BuildID string // Go build ID, which the agent's hello repeats
	Loader  string // path of the dynamic loader it asks for, "" for a static one
	Size    int64  // bytes

	// Gzip is the file compressed, once for all nodes that need it.
	Gzip func() ([]byte, error)

	path string
}

// OpenBinary reads the executable at path.
func OpenBinary(path string) (*Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return nil, err
	}
	id, err := buildID(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	loader, err := loader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b := &Binary{Hash: hex.EncodeToString(sum.Sum(nil)), BuildID: id, Loader: loader, Size: size, path: path}
	b.Gzip = sync.OnceValues(b.compress)
	return b, nil
}

// compress prefers speed: the nodes wait for it, and a better level saves a
// tenth of the bytes at three times the time.
func (b *Binary) compress() ([]byte, error) {
	f, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(z, f); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// self is the running executable, also when its file has been replaced since.
const self = "/proc/self/exe"

// machines are the Linux machines preflight may be built for, by the names
// uname -m has for them.
var machines = map[string]string{
	"x86_64":      "amd64",
	"aarch64":     "arm64",
	"ppc64le":     "ppc64le",
	"riscv64":     "riscv64",
	"s390x":       "s390x",
	"loongarch64": "loong64",
}

// goarch is what Go calls a machine, or the machine's own name when Go has none.
func goarch(machine string) string {
	return cmp.Or(machines[machine], machine)
}

// siblings finds binaries for other machines, and for other C libraries, beside
// our own. It is safe for concurrent use and opens every file once.
type siblings struct {
	directories func() ([]string, error)

	mu    sync.Mutex
	found map[platform][]*Binary
}

type platform struct{ goos, arch string }

// besideUs is where `make cross` puts binaries: the directory of our
// executable, or bin in it.
func besideUs() ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return nil, err
	}
	dir := filepath.Dir(exe)
	return []string{dir, filepath.Join(dir, "bin")}, nil
}

// open returns our executables for a platform, the one to prefer first: the
// dynamic one can ask NVIDIA's driver, and the static one behind it starts where
// there is no glibc. The error wraps os.ErrNotExist when there is none, and says
// how to build it.
func (s *siblings) open(goos, arch string) ([]*Binary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.found[platform{goos, arch}]; found != nil {
		return found, nil
	}
	paths, err := s.locate(goos, arch)
	if err != nil {
		return nil, err
	}
	var found []*Binary
	for _, path := range paths {
		b, err := OpenBinary(path)
		if err != nil {
			return nil, err
		}
		found = append(found, b)
		if b.Loader == "" {
			break // it starts on any node, so none would choose the next
		}
	}
	if s.found == nil {
		s.found = map[platform][]*Binary{}
	}
	s.found[platform{goos, arch}] = found
	return found, nil
}

// locate returns the paths of our executables for a platform.
func (s *siblings) locate(goos, arch string) ([]string, error) {
	name := fmt.Sprintf("preflight-%s-%s", goos, arch)
	names := []string{name, name + "-static"}
	var paths []string
	if (platform{goos, arch}) == (platform{runtime.GOOS, runtime.GOARCH}) {
		names, paths = names[1:], []string{self}
	}
	dirs, err := s.directories()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		for _, dir := range dirs {
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
				break
			} else if !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no %s in %s: build it with `make cross ARCHES=%s`: %w",
			name, strings.Join(dirs, " or "), arch, os.ErrNotExist)
	}
	return paths, nil
}

// ownBuildID is the Go build ID of this process, "" where the system does not
// show a process its executable.
var ownBuildID = sync.OnceValue(func() string {
	f, err := os.Open(self)
	if err != nil {
		return ""
	}
	defer f.Close()
	id, err := buildID(f)
	if err != nil {
		return ""
	}
	return id
})

// buildID reads the note the Go linker leaves in an ELF file, "" when it was
// told not to. Layout: cmd/internal/buildid/note.go (Go 1.26), ELF note of
// name "Go\0\0" and type 4.
func buildID(r io.ReaderAt) (string, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return "", err
	}
	section := f.Section(".note.go.buildid")
	if section == nil {
		return "", nil
	}
	note, err := section.Data()
	if err != nil {
		return "", err
	}
	const header = 16 // three lengths and "Go\0\0"
	if len(note) < header {
		return "", errors.New("cut Go build ID note")
	}
	size := f.ByteOrder.Uint32(note[4:8])
	if uint64(len(note)) < header+uint64(size) || !slices.Equal(note[12:header], []byte("Go\x00\x00")) {
		return "", errors.New("malformed Go build ID note")
	}
	return string(note[header : header+size]), nil
}

// loader reads which dynamic loader an ELF file asks for, "" when it asks for
// none.
func loader(r io.ReaderAt) (string, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return "", err
	}
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		path, err := io.ReadAll(io.LimitReader(segment.Open(), maxPath))
		if err != nil {
			return "", err
		}
		return strings.TrimRight(string(path), "\x00"), nil
	}
	return "", nil
}

// maxPath is PATH_MAX of Linux.
const maxPath = 4096
