// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// object is a shared library, with only the parts that debug/elf needs.
type object struct {
	rodata         string // the read-only data
	code           string // device code, which preflight should not need to read
	needed         []string
	rpath, runpath string
}

// write creates a 64-bit little-endian ELF file with the sections that the tests need.
func (o object) write(t *testing.T, path string) {
	t.Helper()
	dynstr := []byte{0}
	dynamic := new(bytes.Buffer)
	tag := func(tag elf.DynTag, text string) {
		put(dynamic, elf.Dyn64{Tag: int64(tag), Val: uint64(len(dynstr))})
		dynstr = append(append(dynstr, text...), 0)
	}
	for _, name := range o.needed {
		tag(elf.DT_NEEDED, name)
	}
	if o.rpath != "" {
		tag(elf.DT_RPATH, o.rpath)
	}
	if o.runpath != "" {
		tag(elf.DT_RUNPATH, o.runpath)
	}
	put(dynamic, elf.Dyn64{}) // DT_NULL ends the list

	sections := []struct {
		name string
		kind elf.SectionType
		link uint32
		data []byte
	}{
		{name: ""},
		{".nv_fatbin", elf.SHT_PROGBITS, 0, []byte(o.code)},
		{".rodata", elf.SHT_PROGBITS, 0, []byte(o.rodata)},
		{".dynstr", elf.SHT_STRTAB, 0, dynstr},
		{".dynamic", elf.SHT_DYNAMIC, 3, dynamic.Bytes()},
		{".shstrtab", elf.SHT_STRTAB, 0, []byte("\x00.nv_fatbin\x00.rodata\x00.dynstr\x00.dynamic\x00.shstrtab\x00")},
	}
	names := sections[5].data
	body, table := new(bytes.Buffer), new(bytes.Buffer)
	const header = 64
	for _, s := range sections {
		put(table, elf.Section64{
			Name: uint32(max(bytes.Index(names, []byte(s.name+"\x00")), 0)),
			Type: uint32(s.kind), Link: s.link,
			Off: uint64(header + body.Len()), Size: uint64(len(s.data)),
		})
		body.Write(s.data)
	}
	file := new(bytes.Buffer)
	put(file, elf.Header64{
		Ident:   [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_DYN),
		Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT),
		Shoff:   uint64(header + body.Len()),
		Ehsize:  header, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 5,
	})
	file.Write(body.Bytes())
	file.Write(table.Bytes())
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// put appends a value of fixed size. On a buffer this cannot fail.
func put(to *bytes.Buffer, value any) {
	if err := binary.Write(to, binary.LittleEndian, value); err != nil {
		panic(err)
	}
}
