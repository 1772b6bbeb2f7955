// SPDX-License-Identifier: Apache-2.0

//go:build release

package packaging

import (
	"archive/zip"
	"bytes"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
)

// TestMacOSWheel tests what pip and the macOS kernel read first, because no Mac runs here: the tag
// of the wheel, and the header of the program, which must not need a newer system than the tag.
func TestMacOSWheel(t *testing.T) {
	for arch, cpu := range map[string]macho.Cpu{"x86_64": macho.CpuAmd64, "arm64": macho.CpuArm64} {
		t.Run(arch, func(t *testing.T) {
			wheel := released(t, "preflight_launch-*-macosx_*_"+arch+".whl")
			tag := strings.TrimSuffix(wheel[strings.LastIndex(wheel, "-py3-none-")+1:], ".whl")
			said, program := opened(t, wheel)
			if want := "\nTag: " + tag + "\n"; !strings.Contains(said, want) {
				t.Errorf("its WHEEL says\n%sand its name %s", said, tag)
			}
			file, err := macho.NewFile(bytes.NewReader(program))
			if err != nil {
				t.Fatal(err)
			}
			if file.Cpu != cpu || file.Type != macho.TypeExec {
				t.Errorf("it holds a %v for %v", file.Type, file.Cpu)
			}
			oldest, signed := demands(file)
			if want := fmt.Sprintf("py3-none-macosx_%d_%d_%s", oldest>>16, oldest>>8&0xff, arch); tag != want {
				t.Errorf("its program begins with macOS %d.%d: the tag is %s, want %s", oldest>>16, oldest>>8&0xff, tag, want)
			}
			if arch == "arm64" && !signed {
				t.Error("its program has no signature, and Apple's processors start none without")
			}
			libraries, err := file.ImportedLibraries()
			if err != nil {
				t.Fatal(err)
			}
			for _, library := range libraries {
				if !strings.HasPrefix(library, "/usr/lib/") && !strings.HasPrefix(library, "/System/Library/") {
					t.Errorf("its program needs %s, which is not macOS's", library)
				}
			}
		})
	}
}

// opened returns the WHEEL file of a wheel, and the program in it.
func opened(t *testing.T, wheel string) (said string, program []byte) {
	t.Helper()
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, file := range archive.File {
		base := path.Base(file.Name)
		if base != "WHEEL" && base != "preflight" {
			continue
		}
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		if base == "WHEEL" {
			said = string(text)
		} else if program = text; file.Mode() != 0o755 {
			t.Errorf("%s has the mode %v", file.Name, file.Mode())
		}
	}
	return said, program
}

// Load commands for which package macho has no type (mach-o/loader.h of Apple's XNU).
const (
	loadBuildVersion  = 0x32 // command, size, platform, oldest release as 0x00MMmmpp, …
	loadCodeSignature = 0x1d
)

// demands returns the oldest macOS on which a program starts, and whether it has a signature, even
// one without an identity.
func demands(file *macho.File) (oldest uint32, signed bool) {
	for _, load := range file.Loads {
		switch raw := load.Raw(); binary.LittleEndian.Uint32(raw) {
		case loadBuildVersion:
			oldest = binary.LittleEndian.Uint32(raw[12:])
		case loadCodeSignature:
			signed = true
		}
	}
	return oldest, signed
}
