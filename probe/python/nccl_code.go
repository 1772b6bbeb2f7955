// SPDX-License-Identifier: Apache-2.0

package python

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// These constants describe the format of a fat binary. A fat binary is a sequence of containers.
// Each container has a header and entries, and each entry has a header and the code, which is
// usually compressed.
//
// Source: n-eiling/cuda-fatbin-decompression, fatbin-decompress.h, 9b194a9: fat_elf_header and
// fat_text_header.
const (
	fatbinMagic       = 0xba55ed50
	containerHeader   = 16
	entryHeader       = 32 // length of the part of the header that is used here
	kindPTX, kindSASS = 1, 2
)

// enoughContainers is how many containers of a section are read. Each container has one file of
// kernels for all GPUs that the library supports, so all containers list the same GPUs. NCCL has up
// to 362 of them.
const enoughContainers = 16

// readGPUCode returns the GPU targets for which a library has code, with cuobjdump's names. Machine
// code is named like "sm_90", PTX like "compute_90". The result is nil if there is no code, or no
// code in a known format. Code is nearly all of a file of 400 MB, but readGPUCode skips it and
// reads only headers.
func readGPUCode(ctx context.Context, path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	return gpuCode(ctx, f)
}

func gpuCode(ctx context.Context, library io.ReaderAt) (code []string) {
	object, err := elf.NewFile(library)
	if err != nil {
		return nil
	}
	found := map[fatbinEntry]bool{}
	// Code that nvcc compiled with -rdc is in the second section. It is used if nothing in the
	// first section fits.
	for _, name := range []string{".nv_fatbin", "__nv_relfatbin"} {
		if section := object.Section(name); section != nil && !readContainers(ctx, section, int64(section.Size), found) {
			return nil
		}
	}
	for _, entry := range slices.SortedFunc(maps.Keys(found), fatbinEntry.compare) {
		code = append(code, entry.String())
	}
	return code
}

// fatbinEntry holds the kind of the code in an entry, and the GPU that the code is for.
type fatbinEntry struct {
	kind uint16
	arch uint32 // 90 stands for compute capability 9.0
}

func (e fatbinEntry) String() string {
	if e.kind == kindPTX {
		return fmt.Sprintf("compute_%d", e.arch)
	}
	return fmt.Sprintf("sm_%d", e.arch)
}

// compare sorts machine code before PTX, and older GPUs before newer ones.
func (e fatbinEntry) compare(other fatbinEntry) int {
	if e.kind != other.kind {
		return int(other.kind) - int(e.kind)
	}
	return int(e.arch) - int(other.arch)
}

// readContainers adds the entries of a section's first containers to found. It returns false if it
// cannot follow the format.
func readContainers(ctx context.Context, section io.ReaderAt, size int64, found map[fatbinEntry]bool) bool {
	at := int64(0)
	for range enoughContainers {
		if size-at < containerHeader {
			return true
		}
		header := make([]byte, containerHeader)
		if _, err := section.ReadAt(header, at); err != nil || ctx.Err() != nil || binary.LittleEndian.Uint32(header) != fatbinMagic {
			return false
		}
		first, length := int64(binary.LittleEndian.Uint16(header[6:])), binary.LittleEndian.Uint64(header[8:])
		if first < containerHeader || length > uint64(size-at) || first+int64(length) > size-at {
			return false
		}
		end := at + first + int64(length)
		if !readEntries(ctx, section, at+first, end, found) {
			return false
		}
		at = end
	}
	return true
}

func readEntries(ctx context.Context, section io.ReaderAt, at, end int64, found map[fatbinEntry]bool) bool {
	for at < end {
		header := make([]byte, entryHeader)
		if _, err := section.ReadAt(header, at); err != nil || ctx.Err() != nil {
			return false
		}
		own, length := int64(binary.LittleEndian.Uint32(header[4:])), binary.LittleEndian.Uint64(header[8:])
		if own < entryHeader || length > uint64(end-at) || own+int64(length) > end-at {
			return false
		}
		if entry := (fatbinEntry{binary.LittleEndian.Uint16(header), binary.LittleEndian.Uint32(header[28:])}); entry.kind == kindPTX || entry.kind == kindSASS {
			found[entry] = true
		}
		at += own + int64(length)
	}
	return true
}
