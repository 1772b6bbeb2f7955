// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"debug/elf"
	"encoding/json"
)

// compatBranches are the branches of drivers that a libcuda of forward compatibility says it
// works with, nil where it says nothing: JSON in a note of the file.
//
// Source: NVIDIA/nvidia-container-toolkit 1.20, cmd/nvidia-cdi-hook/cudacompat/cuda-elf-header.go.
func compatBranches(path string) []int {
	library, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer library.Close()
	section := library.Section(".note.cuda.fwd_compatibility")
	const most = 64 << 10
	if section == nil || section.Type != elf.SHT_NOTE || section.Size > most {
		return nil
	}
	note, err := section.Data()
	if err != nil {
		return nil
	}
	// A name and a text of these lengths follow a third number, each filled up to a boundary:
	// elf(5), Notes.
	const head = 12
	if len(note) < head {
		return nil
	}
	nameSize, size := library.ByteOrder.Uint32(note), library.ByteOrder.Uint32(note[4:])
	boundary := max(section.Addralign, 1)
	begins := head + (uint64(nameSize)+boundary-1)/boundary*boundary
	if begins+uint64(size) > uint64(len(note)) || !bytes.HasPrefix(note[head:], []byte("NVIDIA Corporation")) {
		return nil
	}
	var says struct{ Driver []int }
	if json.Unmarshal(bytes.Trim(note[begins:begins+uint64(size)], "\x00"), &says) != nil {
		return nil
	}
	return says.Driver
}
