// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// ncclName is the name by which torch asks the loader for NCCL.
const ncclName = "libnccl.so.2"

// isNCCL is whether a name is NCCL's or that of RCCL, which ROCm has in its place: by the
// name that it was built with, librccl.so.1, or the one that the wheels of pytorch.org give
// it (pytorch 2.5, .ci/manywheel/build_common.sh).
func isNCCL(name string) bool {
	return name == ncclName || name == "librccl.so" || name == "librccl.so.1"
}

// ncclSearch is what decides which NCCL the loader gives to torch.
type ncclSearch struct {
	torchDir string   // where torch lies, "" when it is not installed
	sysPath  []string // where the nvidia wheels may lie
	preload  string   // LD_PRELOAD
	path     string   // LD_LIBRARY_PATH
	workDir  string   // what an empty entry of LD_LIBRARY_PATH means
	at       func(path string) string
}

// findNCCL lists the NCCL libraries there are in the order the loader would
// take them, each file once, with the version its bytes name.
func findNCCL(ctx context.Context, s ncclSearch) []facts.NCCLLibrary {
	found := []facts.NCCLLibrary{}
	asIs := func(path string) string { return path } // the interpreter is the real machine's
	for _, c := range machine.Present(s.candidates(), asIs) {
		library := facts.NCCLLibrary{Path: c.Path, From: c.From}
		library.Version, library.CUDA, library.HIP = readNCCLVersion(ctx, c)
		linked := !isNCCL(filepath.Base(c.Path)) && c.From == "torch"
		if library.Version == "" && linked {
			continue // a torch built without NCCL
		}
		if !linked { // else torch's own code is beside it
			library.Code = readGPUCode(ctx, c.Path)
		}
		found = append(found, library)
	}
	return found
}

// candidates follows ld.so(8): preloaded objects, then the DT_RPATH of the
// library that asks unless it has a DT_RUNPATH, then LD_LIBRARY_PATH, then
// DT_RUNPATH, the cache and the default directories. The PyPI wheels of torch
// carry a DT_RPATH (pytorch .ci/manywheel/build_cuda.sh, FORCE_RPATH), so
// LD_LIBRARY_PATH does not override their nvidia-nccl wheel; most other builds
// carry a DT_RUNPATH, and it does.
func (s ncclSearch) candidates() []machine.Candidate {
	var all []machine.Candidate
	for _, path := range strings.FieldsFunc(s.preload, func(r rune) bool { return r == ':' || r == ' ' }) {
		if base := filepath.Base(path); strings.Contains(base, "libnccl.so") || strings.Contains(base, "librccl.so") {
			all = append(all, machine.Candidate{Path: path, From: "LD_PRELOAD"})
		}
	}
	torch := readTorchLinks(s.torchDir)
	name := cmp.Or(torch.needs, ncclName)
	if torch.path != "" && torch.needs == "" {
		all = append(all, machine.Candidate{Path: torch.path, From: "torch"}) // linked in: torch searches for none
	}
	all = append(all, torchCandidates(torch.rpath, name)...)
	all = append(all, machine.LibraryPathOrder(s.path, s.workDir, name)...)
	all = append(all, torchCandidates(torch.runpath, name)...)
	for _, c := range machine.SystemOrder(s.at, name) {
		all = append(all, machine.Candidate{Path: s.at(c.Path), From: c.From})
	}
	if name != ncclName {
		return all
	}
	// torch loads the wheel by its full path when the loader finds nothing
	// (torch/__init__.py, _preload_cuda_deps).
	for _, dir := range s.sysPath {
		all = append(all, machine.Candidate{Path: filepath.Join(dir, "nvidia/nccl/lib", ncclName), From: "wheel"})
	}
	return all
}

// torchCandidates are the libraries in the directories that torch itself names.
func torchCandidates(dirs []string, name string) []machine.Candidate {
	var all []machine.Candidate
	for _, dir := range dirs {
		from := "torch"
		if strings.HasSuffix(filepath.Clean(dir), "nvidia/nccl/lib") {
			from = "wheel"
		}
		all = append(all, machine.Candidate{Path: filepath.Join(dir, name), From: from})
	}
	return all
}

// ncclVersion is how NCCL since 2.4.6 names itself in its read-only data, and RCCL likewise
// (ROCm/rccl 2.18, init.cc, VERSION_STRING).
var ncclVersion = lazyregexp.New(`[NR]CCL version (\d+\.\d+\.\d+)[^\s\x00+]{0,32}\+(?:cuda(\d+\.\d+)|hip(\d+\.\d+))`)

// readNCCLVersion finds the version in a library's bytes without loading it. It
// looks at the read-only data first: the device code is nearly all of the file
// and cannot hold it. Of torch's own library, a gigabyte that need not have any
// NCCL in it, nothing else is read.
func readNCCLVersion(ctx context.Context, c machine.Candidate) (version, cuda, hip string) {
	f, err := os.Open(c.Path)
	if err != nil {
		return "", "", ""
	}
	defer f.Close()
	if object, err := elf.NewFile(f); err == nil {
		if data := object.Section(".rodata"); data != nil {
			version, cuda, hip = scanNCCLVersion(ctx, data.Open())
		}
		if version != "" || strings.HasPrefix(filepath.Base(c.Path), "libtorch") {
			return version, cuda, hip
		}
	}
	return scanNCCLVersion(ctx, io.NewSectionReader(f, 0, math.MaxInt64))
}

// scanNCCLVersion reads r in pieces and holds two of them at most. Pieces
// overlap by more than the longest match.
func scanNCCLVersion(ctx context.Context, r io.Reader) (version, cuda, hip string) {
	const piece, overlap = 256 << 10, 128
	buffer := make([]byte, piece+overlap)
	kept := 0
	for ctx.Err() == nil {
		n, err := io.ReadFull(r, buffer[kept:])
		window := buffer[:kept+n]
		// The plain search is several times faster than the expression.
		if bytes.Contains(window, []byte("CCL version ")) {
			if match := ncclVersion.FindSubmatch(window); match != nil {
				return string(match[1]), string(match[2]), string(match[3])
			}
		}
		if err != nil {
			return "", "", ""
		}
		kept = copy(buffer, window[len(window)-overlap:])
	}
	return "", "", ""
}
