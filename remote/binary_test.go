package remote

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
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

func TestSiblings(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	s := &siblings{directories: func() ([]string, error) { return []string{dir, bin}, nil }}
	own, err := s.open("linux", runtime.GOARCH)
	if err != nil || own.path != self {
		t.Errorf("own: %+v, %v", own, err)
	}
	_, err = s.open("linux", "mips")
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "`GOOS=linux GOARCH=mips make cross`") || !strings.Contains(err.Error(), dir) {
		t.Errorf("missing sibling: %v", err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, "preflight-linux-mips")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := s.open("linux", "mips")
	if err != nil || first.path != path || first.Hash != own.Hash {
		t.Errorf("sibling: %+v, %v", first, err)
	}
	if second, err := s.open("linux", "mips"); second != first {
		t.Errorf("read twice: %+v, %v", second, err)
	}
}

func TestOffer(t *testing.T) {
	none := func(string, string) (*Binary, error) { return nil, os.ErrNotExist }
	if got := offer(none); got != "-" {
		t.Errorf("without binaries: %q", got)
	}
	own := func(_, arch string) (*Binary, error) {
		if arch != runtime.GOARCH && arch != "riscv64" {
			return nil, os.ErrNotExist
		}
		return &Binary{Hash: "h-" + arch}, nil
	}
	if got, want := offer(own), "h-"+runtime.GOARCH+" riscv64=h-riscv64"; got != want {
		t.Errorf("offer %q, want %q", got, want)
	}
}
