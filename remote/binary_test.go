// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestOpenBinary(t *testing.T) {
	b, err := OpenBinary(self)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id, err := exec.Command("go", "tool", "buildid", exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(id)); b.BuildID != want || ownBuildID() != want || want == "" {
		t.Errorf("build ID %q, own %q, want %q by go tool buildid", b.BuildID, ownBuildID(), want)
	}
	packed, err := b.Gzip()
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	size, err := io.Copy(sum, z)
	if err != nil || size != b.Size || hex.EncodeToString(sum.Sum(nil)) != b.Hash {
		t.Errorf("unpacked: %d bytes of %x (%v), want %d of %s", size, sum.Sum(nil), err, b.Size, b.Hash)
	}
	again, err := b.Gzip()
	if err != nil || &again[0] != &packed[0] {
		t.Errorf("packed twice (%v)", err)
	}
}

func TestOpenBinaryRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preflight")
	if _, err := OpenBinary(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#!/bin/sh\n", 10)), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBinary(path); err == nil || !strings.Contains(err.Error(), "bad magic number") {
		t.Errorf("a script: %v", err)
	}
}

// program writes an ELF file for this machine. loader is the loader that the file needs, "" for
// none.
func program(t *testing.T, path, loader string) {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]), Version: uint32(elf.EV_CURRENT),
		Ehsize: 64, Phoff: 64, Phentsize: 56, Shentsize: 64,
	}
	var segments []elf.Prog64
	if loader != "" {
		loader += "\x00"
		segments = []elf.Prog64{{Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: uint64(len(loader)), Memsz: uint64(len(loader))}}
	}
	header.Phnum = uint16(len(segments))
	var file bytes.Buffer
	for _, part := range []any{header, segments, []byte(loader)} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, file.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestOpenBinaryTellsTheLoader(t *testing.T) {
	for _, want := range []string{"", "/lib/ld-musl-x86_64.so.1"} {
		path := filepath.Join(t.TempDir(), "program")
		program(t, path, want)
		if b, err := OpenBinary(path); err != nil || b.Loader != want {
			t.Errorf("loader %q (%v), want %q", b.Loader, err, want)
		}
	}
}

// TestPack: Packed must not decompress the file, and nodes must get exactly the packed file.
func TestPack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	program(t, path, "/lib/ld.so")
	text, err := Pack(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Packed(bytes.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := OpenBinary(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Binary{}, "Gzip")); diff != "" || got.Loader == "" {
		t.Errorf("(-opened +packed):\n%s", diff)
	}
	cmd := exec.Command("gzip", "-dc")
	cmd.Stdin = bytes.NewReader(text)
	unpacked, err := cmd.Output()
	if sum := sha256.Sum256(unpacked); err != nil || hex.EncodeToString(sum[:]) != got.Hash {
		t.Errorf("unpacked: %d bytes of %x (%v), want %d of %s", len(unpacked), sum, err, got.Size, got.Hash)
	}
	if again, err := Pack(path); err != nil || !bytes.Equal(again, text) {
		t.Errorf("packed again it is something else (%v)", err)
	}
	if _, err := Packed(bytes.NewReader(text[:9]), nil); err == nil {
		t.Error("half a header was taken")
	}
	if plain, err := want.Gzip(); err != nil {
		t.Error(err)
	} else if _, err := Packed(bytes.NewReader(plain), nil); err == nil {
		t.Error("what does not say what it is was taken")
	}
	if _, err := Pack("binary_test.go"); err == nil {
		t.Error("a text was packed")
	}
}

func TestOwn(t *testing.T) {
	own, err := Own("linux", runtime.GOARCH)
	if err != nil || own.BuildID != ownBuildID() {
		t.Errorf("%+v, %v", own, err)
	}
	for _, other := range []platform{{"linux", "mips"}, {"darwin", runtime.GOARCH}} {
		if _, err := Own(other.goos, other.arch); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "`make cross ARCHES="+other.arch+"`") {
			t.Errorf("%s: %v", other, err)
		}
	}
}

type platform struct{ goos, arch string }

func TestOffer(t *testing.T) {
	none := func(string, string) (*Binary, error) { return nil, os.ErrNotExist }
	if got := offer(none); got != "" {
		t.Errorf("without binaries: %q", got)
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	for _, c := range []struct {
		archs []string
		want  []string // sorted by the names of the machines
	}{
		{[]string{runtime.GOARCH}, []string{"any:h1:7"}},
		{[]string{runtime.GOARCH, "riscv64"}, []string{machine + ":h1:7", "riscv64:h1:7"}},
		{[]string{"riscv64"}, []string{"riscv64:h1:7"}},
	} {
		binary := func(_, arch string) (*Binary, error) {
			if slices.Contains(c.archs, arch) {
				return &Binary{Hash: "h1", Size: 7}, nil
			}
			return nil, os.ErrNotExist
		}
		slices.Sort(c.want)
		if got, want := offer(binary), strings.Join(c.want, " "); got != want {
			t.Errorf("of %s: offer %q, want %q", c.archs, got, want)
		}
	}
}
