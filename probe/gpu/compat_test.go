// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// noted returns a library that contains only a note.
func noted(t *testing.T, section, name, text string) string {
	t.Helper()
	var note bytes.Buffer
	put := func(to *bytes.Buffer, value any) {
		if err := binary.Write(to, binary.LittleEndian, value); err != nil {
			t.Fatal(err)
		}
	}
	padded := func(text string) []byte { return append([]byte(text), make([]byte, (4-len(text)%4)%4)...) }
	put(&note, []uint32{uint32(len(name)), uint32(len(text)), 1})
	note.Write(padded(name))
	note.Write(padded(text))
	names := "\x00" + section + "\x00.shstrtab\x00"
	const head, row = 64, 64
	var file bytes.Buffer
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	put(&file, elf.Header64{
		Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Ehsize: head, Shentsize: row, Shnum: 3, Shstrndx: 2, Shoff: head + uint64(note.Len()) + uint64(len(names)),
	})
	file.Write(note.Bytes())
	file.WriteString(names)
	put(&file, []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_NOTE), Off: head, Size: uint64(note.Len()), Addralign: 4},
		{Name: uint32(len(section)) + 2, Type: uint32(elf.SHT_STRTAB), Off: head + uint64(note.Len()), Size: uint64(len(names)), Addralign: 1},
	})
	path := filepath.Join(t.TempDir(), "libcuda.so.590.44.01")
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompatBranches(t *testing.T) {
	const section, maker = ".note.cuda.fwd_compatibility", "NVIDIA Corporation\x00"
	const says = `{"Format": 1, "CUDA Version": "13.1", "Driver": [535, 550, 590], "Device": [1, 9]}`
	for name, c := range map[string]struct {
		section, maker, text string
		want                 []int
	}{
		"a package's":   {section, maker, says, []int{535, 550, 590}},
		"no such note":  {".note.gnu.build-id", maker, says, nil},
		"another maker": {section, "GNU\x00", says, nil},
		"no JSON":       {section, maker, "Driver: 535", nil},
		"another kind":  {section, maker, `{"Driver": "535"}`, nil},
	} {
		if got := compatBranches(noted(t, c.section, c.maker, c.text)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := compatBranches(filepath.Join(t.TempDir(), "none")); got != nil {
		t.Errorf("of no file: %v", got)
	}
}
