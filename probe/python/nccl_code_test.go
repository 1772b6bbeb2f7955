// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded holds the parts of a library that were once read. testdata/NAME.reads has a line for
// each place, with the bytes in that place. They are headers from NVIDIA's wheels of that name on
// PyPI. A read in any other place would read code.
type recorded map[place][]byte

type place struct {
	at     int64
	length int
}

func record(t *testing.T, name string) recorded {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".reads"))
	if err != nil {
		t.Fatal(err)
	}
	reads := recorded{}
	for line := range strings.Lines(string(text)) {
		var at int64
		var digits string
		if _, err := fmt.Sscan(line, &at, &digits); err != nil {
			t.Fatal(err)
		}
		read, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		reads[place{at, len(read)}] = read
	}
	return reads
}

func (r recorded) ReadAt(p []byte, at int64) (int, error) {
	read, isHeader := r[place{at, len(p)}]
	if !isHeader {
		return 0, fmt.Errorf("%d bytes at %d are not of any header", len(p), at)
	}
	return copy(p, read), nil
}

func TestGPUCodeOfRealLibraries(t *testing.T) {
	for name, want := range map[string]string{
		"libnccl-2.21.5-cu12": "sm_50 sm_60 sm_61 sm_70 sm_80 sm_90 compute_90",
		"libnccl-2.32.3-cu13": "sm_75 sm_80 sm_90 sm_100 sm_107 sm_110 sm_120 compute_120",
	} {
		if diff := cmp.Diff(want, strings.Join(gpuCode(t.Context(), record(t, name)), " ")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// fatbin returns a container with one entry of machine code for a GPU.
func fatbin(arch uint32) []byte {
	made := new(bytes.Buffer)
	put(made, struct {
		Magic          uint32
		Version, First uint16
		Length         uint64
	}{fatbinMagic, 1, containerHeader, 64 + 8})
	put(made, struct {
		Kind, Version uint16
		Header        uint32
		Length        uint64
		_             [12]byte
		Arch          uint32
		_             [32]byte
	}{kindSASS, 0x101, 64, 8, [12]byte{}, arch, [32]byte{}})
	made.WriteString("the code")
	return made.Bytes()
}

func TestGPUCodeOfDamagedLibraries(t *testing.T) {
	whole := string(fatbin(90)) + string(fatbin(100))
	half := len(whole) / 2
	replaced := func(at int, with string) string { return whole[:at] + with + whole[at+len(with):] }
	for _, c := range []struct{ name, section, want string }{
		{"as it is to be", whole, "sm_90 sm_100"},
		{"only one of two", whole[:half], "sm_90"},
		{"cut in the second", whole[:half+40], ""},
		{"another magic number", replaced(half, "\x00\x00\x00\x00"), ""},
		{"a container of no end", replaced(8, "\xff\xff\xff\xff\xff\xff\xff\xff"), ""},
		{"an entry of no length, which would never be over", replaced(20, strings.Repeat("\x00", 12)), ""},
		{"an entry that is longer than its container", replaced(24, "\xff\xff\xff\xff\xff\xff\xff\x7f"), ""},
		{"neither PTX nor machine code", replaced(half+16, "\x40"), "sm_90"},
		{"no code at all", "", ""},
	} {
		path := filepath.Join(t.TempDir(), "libnccl.so.2")
		object{code: c.section}.write(t, path)
		if diff := cmp.Diff(c.want, strings.Join(readGPUCode(t.Context(), path), " ")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if code := gpuCode(ended, record(t, "libnccl-2.21.5-cu12")); code != nil {
		t.Errorf("read on after its time: %v", code)
	}
}
