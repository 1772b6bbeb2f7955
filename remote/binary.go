// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Binary is an executable that can be sent to nodes and run there as an agent.
type Binary struct {
	Hash    string `json:"sha256"` // SHA-256 of the file in hex, part of its name on the nodes
	BuildID string `json:"build"`  // Go build ID, which the agent's hello repeats
	Loader  string `json:"loader"` // path of the dynamic loader that the file needs, "" for a static file
	Size    int64  `json:"size"`   // size in bytes

	// Gzip returns the compressed file. All nodes that need the file share the result.
	Gzip func() ([]byte, error) `json:"-"`
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
	b := &Binary{Hash: hex.EncodeToString(sum.Sum(nil)), BuildID: id, Loader: loader, Size: size}
	// Nodes wait for the compression. A better level would save a tenth of the bytes and take eight
	// times as long.
	b.Gzip = sync.OnceValues(func() ([]byte, error) { return compress(path, gzip.BestSpeed, "") })
	return b, nil
}

// unpacked returns the uncompressed file.
func (b *Binary) unpacked() (io.Reader, error) {
	packed, err := b.Gzip()
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(bytes.NewReader(packed))
}

// compress compresses a file with gzip and puts comment into the gzip header.
func compress(path string, level int, comment string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		return nil, err
	}
	z.Comment = comment
	if _, err := io.Copy(z, f); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// Pack compresses the executable at path with gzip's best compression. It stores what [Packed]
// returns in the gzip header, which the nodes' gzip ignores.
func Pack(path string) ([]byte, error) {
	b, err := OpenBinary(path)
	if err != nil {
		return nil, err
	}
	comment, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return compress(path, gzip.BestCompression, string(comment))
}

// Packed returns the executable that [Pack] compressed into text. It reads only the gzip header.
// whole returns the full text, whose content the nodes verify.
func Packed(text io.Reader, whole func() ([]byte, error)) (*Binary, error) {
	z, err := gzip.NewReader(text)
	if err != nil {
		return nil, err
	}
	b := &Binary{Gzip: whole}
	if err := json.Unmarshal([]byte(z.Comment), b); err != nil {
		return nil, fmt.Errorf("cannot read its header: %w", err)
	}
	return b, nil
}

// self is the running executable, even if its file has been replaced.
const self = "/proc/self/exe"

// machines maps the names of Linux architectures in uname -m to Go's names, for the architectures
// that preflight may be built for.
var machines = map[string]string{
	"x86_64":      "amd64",
	"aarch64":     "arm64",
	"ppc64le":     "ppc64le",
	"riscv64":     "riscv64",
	"s390x":       "s390x",
	"loongarch64": "loong64",
}

// goarch returns Go's name for an architecture, or machine itself if Go has no name for it.
func goarch(machine string) string {
	return cmp.Or(machines[machine], machine)
}

// Own returns the running executable as an agent for machines of the same platform. For other
// platforms the error wraps os.ErrNotExist and names what provides an agent.
func Own(goos, arch string) (*Binary, error) {
	if runtime.GOOS != "linux" || goos != "linux" || arch != runtime.GOARCH {
		return nil, NoBinary(goos, arch)
	}
	return openOwn()
}

var openOwn = sync.OnceValues(func() (*Binary, error) { return OpenBinary(self) })

// NoBinary returns the error for a platform without an agent, with the command that builds one.
func NoBinary(goos, arch string) error {
	return fmt.Errorf("this preflight carries no agent for %s/%s: `make cross ARCHES=%s` builds one that does: %w", goos, arch, arch, os.ErrNotExist)
}

// ownBuildID returns the Go build ID of this process, "" if the system does not let a process read
// its own executable.
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

// buildID returns the build ID in the note of the Go linker in an ELF file, "" if the linker was
// told not to write one. Layout: cmd/internal/buildid/note.go (Go 1.26), ELF note with name
// "Go\0\0" and type 4.
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

// loader returns the path of the dynamic loader that an ELF file needs, "" for none.
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

// maxPath is Linux's PATH_MAX, the maximum length of a path.
const maxPath = 4096
